"""From a verified round to the plain data that is shown and counted."""

from __future__ import annotations

from collections.abc import Sequence

from engine.data.rounds import EmittedToken, JudgedPrediction, ProposedToken
from engine.maths.acceptance import Verdict, agreement
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, Proposal
from engine.text.detokenize import IncrementalText


def texts(tokens: Sequence[int], text: IncrementalText, *, is_last: bool) -> list[str]:
    """What each token adds to the reply's text."""
    words = [text.push(token) for token in tokens]
    if is_last:
        words[-1] += text.finish()
    return words


def proposed_tokens(
    proposal: Proposal,
    verdict: Verdict,
    targets: Sequence[Distribution],
    text: IncrementalText,
) -> tuple[ProposedToken, ...]:
    accepted = set(verdict.path)
    depths = proposal.depths
    nodes = []
    for node, token in enumerate(proposal.tokens):
        q = proposal.distributions[node]
        nodes.append(
            ProposedToken(
                token=token,
                text=text.alone(token),
                parent=proposal.parents[node],
                depth=depths[node],
                drafter=proposal.drafters[node],
                p=targets[1 + proposal.parents[node]].probability(token),
                q=None if q is None else q.probability(token),
                accepted=node in accepted,
            )
        )
    return tuple(nodes)


def emitted_tokens(
    proposal: Proposal,
    verdict: Verdict,
    targets: Sequence[Distribution],
    tokens: Sequence[int],
    words: Sequence[str],
) -> tuple[EmittedToken, ...]:
    emitted = []
    parent = ROOT
    for index, (token, word) in enumerate(zip(tokens, words, strict=True)):
        p = targets[1 + parent].probability(token)
        if index < len(verdict.path):
            node = verdict.path[index]
            q = proposal.distributions[node]
            emitted.append(
                EmittedToken(
                    token=token,
                    text=word,
                    kind="accepted",
                    drafter=proposal.drafters[node],
                    p=p,
                    q=None if q is None else q.probability(token),
                    depth=index + 1,
                )
            )
            parent = node
        else:
            emitted.append(EmittedToken(token, word, verdict.kind, None, p, None, None))
    return tuple(emitted)


def cast_ballots(
    proposal: Proposal,
    verdict: Verdict,
    targets: Sequence[Distribution],
    text: IncrementalText,
) -> tuple[JudgedPrediction, ...]:
    on_path = {ROOT, *verdict.path}
    return tuple(
        JudgedPrediction(
            drafter=ballot.drafter,
            parent=ballot.parent,
            token=ballot.token,
            text=text.alone(ballot.token),
            confidence=ballot.confidence,
            agreement=agreement(ballot, targets[1 + ballot.parent]),
            on_path=ballot.parent in on_path,
        )
        for ballot in proposal.ballots
    )
