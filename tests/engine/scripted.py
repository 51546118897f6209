"""A toy target and scripted drafters: the round loop's collaborators without a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import DrafterError, NativeError
from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.llama.abort import PassAborted
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal

VOCABULARY = 12
END = 11


def toy_logits(context: Sequence[int]) -> NDArray[np.float32]:
    """A row [VOCABULARY] that depends on the whole context; END becomes likely late."""
    return _row(len(context), tuple(context[-4:])).copy()


@functools.cache
def _row(length: int, recent: tuple[int, ...]) -> NDArray[np.float32]:
    generator = np.random.default_rng([length, *recent])
    row = generator.standard_normal(VOCABULARY).astype(np.float32) * 3.0
    row[END] = -9.0
    return row


def ending_logits(length: int) -> Callable[[Sequence[int]], NDArray[np.float32]]:
    """toy_logits whose most likely token after `length` tokens is END."""

    def logits(context: Sequence[int]) -> NDArray[np.float32]:
        row = toy_logits(context)
        row[END] = 50.0 if len(context) >= length else -9.0
        return row

    return logits


def greedy_text(
    logits: Callable[[Sequence[int]], NDArray[np.float32]], prompt: Sequence[int], count: int
) -> list[int]:
    """What plain greedy decoding emits: at most `count` tokens, END included if met."""
    context = list(prompt)
    while len(context) < len(prompt) + count:
        context.append(int(np.argmax(logits(context))))
        if context[-1] == END:
            break
    return context[len(prompt) :]


class ToyVocabulary:
    """Token n is the letter at place n; END is empty."""

    def piece(self, token: int) -> bytes:
        return b"" if token == END else bytes([ord("a") + token])

    def ends_generation(self, token: int) -> bool:
        return token == END


@dataclass
class ToyTarget:
    """Keeps the same books as a llama.cpp context, and refuses what that one would refuse.

    abort_at, fail_at: the pass (from 1) that is stopped or fails.
    """

    length_limit: int = 1000
    max_rows: int = 65
    logits: Callable[[Sequence[int]], NDArray[np.float32]] = toy_logits
    abort_at: int = 0
    fail_at: int = 0
    tokens: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    _open_round: bool = False
    _inputs: tuple[int, ...] = ()

    def verify(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]:
        assert not self._open_round, "verify before keep_path of the round before"
        width = 1 + len(proposal)
        assert width <= self.max_rows, "wider than the output buffer"
        assert len(self.tokens) + width <= self.length_limit, "no room in the cache"
        self.widths.append(width)
        if len(self.widths) == self.abort_at:
            raise PassAborted
        if len(self.widths) == self.fail_at:
            raise NativeError("scripted failure")
        self._open_round = True
        self._inputs = (last_token, *proposal.tokens)
        base = [*self.tokens, last_token]
        rows = [self.logits(base)]
        for node in range(len(proposal)):
            path = [proposal.tokens[index] for index in proposal.path(node)]
            rows.append(self.logits([*base, *path]))
        return np.stack(rows)

    def keep_path(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None:
        assert self._open_round
        assert [proposal.parents[node] for node in path] == [ROOT, *path][: len(path)]
        self._open_round = False
        self.tokens += [last_token, *(proposal.tokens[node] for node in path)]
        self._inputs = ()

    def hidden_states(self, rows: int) -> NDArray[np.float32]:
        """Of a row: its own input token, [rows, 1]. Gone once the path is kept."""
        assert rows == len(self._inputs)
        return np.array(self._inputs, np.float32)[:, None]


Script = Callable[[Sequence[int], int], Proposal]


class ScriptedDrafter:
    """script(context, max_depth) makes the proposal; observations are kept."""

    needs: TargetNeeds = "nothing"
    description = "scripted"
    memory_bytes = 0

    def __init__(self, script: Script, name: str = "scripted", max_leaves: int = 8) -> None:
        self.name = name
        self.max_leaves = max_leaves
        self.observed: list[Observation] = []
        self.contexts: list[list[int]] = []
        self.begun: list[list[int]] = []
        self.closed = 0
        self._script = script

    def begin(self, prompt: Sequence[int]) -> None:
        self.begun.append(list(prompt))

    def propose(self, round_: DraftRound) -> Proposal:
        self.contexts.append(list(round_.context))
        return self._script(round_.context, round_.max_depth)

    def observe(self, observation: Observation) -> None:
        self.observed.append(observation)

    def close(self) -> None:
        self.closed += 1


Oracle = Callable[[Sequence[int], int], list[int]]
"""oracle(context, count): the target's own greedy continuation."""


def toy_oracle(logits: Callable[[Sequence[int]], NDArray[np.float32]] = toy_logits) -> Oracle:
    return lambda context, count: greedy_text(logits, context, count)


def right(oracle: Oracle) -> Script:
    return lambda context, depth: Proposal.chain(oracle(context, depth), "scripted")


def wrong(oracle: Oracle, vocabulary: int = VOCABULARY - 1) -> Script:
    """Never the target's token, not even by chance."""

    def script(context: Sequence[int], depth: int) -> Proposal:
        tokens = [(token + 1) % vocabulary for token in oracle(context, depth)]
        return Proposal.chain(tokens, "scripted")

    return script


def alternating(oracle: Oracle, vocabulary: int = VOCABULARY - 1) -> Script:
    """Two right tokens, then wrong ones, in every other round; wrong at once in the rest."""

    def script(context: Sequence[int], depth: int) -> Proposal:
        good = 2 if len(context) % 2 else 0
        tokens = oracle(context, depth)
        bad = [(token + 1) % vocabulary for token in tokens[good:]]
        return Proposal.chain([*tokens[:good], *bad], "scripted")

    return script


def empty(context: Sequence[int], depth: int) -> Proposal:
    return EMPTY_PROPOSAL


def too_long(oracle: Oracle) -> Script:
    """Ignores every limit."""
    return lambda context, depth: Proposal.chain(oracle(context, depth + 40), "scripted")


def tree(oracle: Oracle, vocabulary: int = VOCABULARY - 1) -> Script:
    """The right chain between wrong siblings, one of them with a child of its own."""

    def script(context: Sequence[int], depth: int) -> Proposal:
        tokens: list[int] = []
        parents: list[int] = []
        trunk = ROOT
        for token in oracle(context, depth):
            other = (token + 1) % vocabulary
            first = len(tokens)
            tokens += [other, token, token]
            parents += [trunk, trunk, first]
            trunk = first + 1
        count = len(tokens)
        return Proposal(tuple(tokens), tuple(parents), ("scripted",) * count, (None,) * count)

    return script


def failing(script: Script, after: int) -> Script:
    """DrafterError from the call number `after` on."""
    calls = 0

    def wrapped(context: Sequence[int], depth: int) -> Proposal:
        nonlocal calls
        calls += 1
        if calls >= after:
            raise DrafterError("scripted failure")
        return script(context, depth)

    return wrapped
