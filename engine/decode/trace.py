"""From a round to the plain data that is shown and counted."""

from __future__ import annotations

from engine.data.rounds import (
    CopySource,
    EmittedToken,
    JudgedPrediction,
    ProposedToken,
    RoundTrace,
)
from engine.decode.round import Round
from engine.maths.acceptance import agreement
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT
from engine.text.detokenize import IncrementalText


def trace_of(
    round_: Round, number: int, text: IncrementalText, *, is_last: bool, parked: bool
) -> RoundTrace:
    """number: of the round in its reply. text: of the reply so far; the round's tokens are added.

    is_last: bytes of a character that stays incomplete are shown now.
    """
    proposed = _proposed(round_, text)
    return RoundTrace(
        round=number,
        position=round_.position,
        proposed=proposed,
        emitted=_emitted(round_, _words(round_, text, is_last=is_last)),
        seconds=round_.seconds,
        parked=parked and not proposed,
        predictions=_judged(round_, text),
    )


def _words(round_: Round, text: IncrementalText, *, is_last: bool) -> list[str]:
    """What each token adds to the reply's text."""
    words = [text.push(token) for token in round_.tokens]
    if is_last:
        words[-1] += text.finish()
    return words


def _proposed(round_: Round, text: IncrementalText) -> tuple[ProposedToken, ...]:
    proposal, accepted = round_.proposal, set(round_.verdict.path)
    depths = proposal.depths
    return tuple(
        ProposedToken(
            token=token,
            text=text.alone(token),
            parent=proposal.parents[node],
            depth=depths[node],
            drafter=proposal.drafters[node],
            p=round_.targets[1 + proposal.parents[node]].probability(token),
            q=_probability(proposal.distributions[node], token),
            accepted=node in accepted,
            source=_source(round_, node),
        )
        for node, token in enumerate(proposal.tokens)
    )


def _emitted(round_: Round, words: list[str]) -> tuple[EmittedToken, ...]:
    proposal, path = round_.proposal, round_.verdict.path
    emitted = []
    parent = ROOT
    for index, (token, word) in enumerate(zip(round_.tokens, words, strict=True)):
        p = round_.targets[1 + parent].probability(token)
        if index >= len(path):
            kind = round_.verdict.kind
            last = EmittedToken(token, word, kind, None, p, None, None, forced=round_.forced)
            emitted.append(last)
            break
        parent = path[index]
        q = _probability(proposal.distributions[parent], token)
        drafter = proposal.drafters[parent]
        source = _source(round_, parent)
        emitted.append(
            EmittedToken(token, word, "accepted", drafter, p, q, index + 1, source=source)
        )
    return tuple(emitted)


def _source(round_: Round, node: int) -> CopySource | None:
    """Only of its own drafter's: others may have meant the same token for other reasons."""
    if not round_.sources:
        return None
    proposal = round_.proposal
    path = tuple(proposal.tokens[step] for step in proposal.path(node))
    return round_.sources.get((proposal.drafters[node], path))


def _probability(q: Distribution | None, token: int) -> float | None:
    return None if q is None else q.probability(token)


def _judged(round_: Round, text: IncrementalText) -> tuple[JudgedPrediction, ...]:
    """What members of an ensemble would have proposed, and what the target thinks of it."""
    on_path = {ROOT, *round_.verdict.path}
    return tuple(
        JudgedPrediction(
            drafter=prediction.drafter,
            parent=prediction.parent,
            token=prediction.token,
            text=text.alone(prediction.token),
            confidence=prediction.confidence,
            agreement=agreement(prediction, round_.targets[1 + prediction.parent]),
            on_path=prediction.parent in on_path,
        )
        for prediction in round_.proposal.predictions
    )
