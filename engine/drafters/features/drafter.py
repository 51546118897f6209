"""A small decoder over features of the target: EAGLE (Li et al., 2401.15077, 2503.01840), MTP.

The drafter sees the features of every token the target has kept. Position P of its own cache pairs
the state made of the target's features at P with the token at P + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.data.draft_cost import DraftCost
from engine.data.errors import DrafterError, EngineError
from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.features.decoder import ROWS_AT_ONCE, Decoder, decoder_cost
from engine.drafters.stepping import draft_chain
from engine.llama.context import Context
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction, Proposal
from engine.maths.ranking import likeliest
from engine.maths.sampling import confidence

_WAITING_ROWS = 256


@dataclass(frozen=True, slots=True)
class DrafterLabel:
    """What is shown of a drafter. memory_bytes: weights, KV and states."""

    name: str
    description: str
    memory_bytes: int


class FeatureDrafter:
    """layers: of the target, in the drafter's order. open_decoder: once the target is open.

    ends_generation: whether a token ends the reply. on_close frees the drafter's weights.
    """

    needs: TargetNeeds = "layer outputs"
    max_leaves = 1

    def __init__(
        self,
        label: DrafterLabel,
        layers: Sequence[int],
        open_decoder: Callable[[Context], Decoder],
        ends_generation: Callable[[int], bool],
        on_close: Callable[[], None],
    ) -> None:
        self.name = label.name
        self.layers = tuple(layers)
        self.memory_bytes = label.memory_bytes
        self.description = label.description
        self._open_decoder = open_decoder
        self._ends_generation = ends_generation
        self._on_close = on_close
        self._decoder: Decoder | None = None
        self._width = 0  # of what is known of a position
        self._failure: EngineError | None = None
        self._tokens: list[int] = []  # of the target's cache, as far as features were seen
        self._fed_tokens: list[int] = []  # the token of every entry in the decoder's cache
        self._states: list[NDArray[np.float32]] = []  # g of every position encoded so far
        self._waiting: list[NDArray[np.float32]] = []  # features of the positions after those
        self._verified: tuple[int, tuple[int, ...], NDArray[np.float32]] | None = None
        self._round: DraftRound | None = None
        self._drafted: list[int] = []
        self._row: NDArray[np.float32] | None = None
        self._state: NDArray[np.float32] = np.empty(0, np.float32)
        self._is_behind = True

    # Following the target

    def connect(self, target: Context) -> None:
        self._decoder = self._open_decoder(target)
        self._width = len(self.layers) * target.model.hidden_size

    def draft_costs(self) -> Mapping[str, DraftCost]:
        cost = decoder_cost(self._require_decoder(), self._width)
        self._fed_tokens.clear()
        return {self.name: cost}

    def cut(self, length: int) -> int:
        known = min(length, len(self._tokens))
        del self._tokens[known:]
        del self._waiting[max(0, known - len(self._states)) :]
        del self._states[known:]
        del self._fed_tokens[known:]  # entries made of states that are gone
        self._verified = None
        self._failure = None
        return known

    def fed(self, start: int, tokens: Sequence[int], features: NDArray[np.float32]) -> None:
        if start != len(self._tokens):
            raise DrafterError("it has not seen all of the text")
        self._tokens.extend(tokens)
        self._waiting.extend(features)
        if len(self._waiting) >= _WAITING_ROWS:
            self._follow(self._tokens)

    def verified(self, start: int, tokens: Sequence[int], features: NDArray[np.float32]) -> None:
        self._verified = (start, tuple(tokens), features)

    def kept(self, rows: Sequence[int]) -> None:
        if self._verified is None:
            return
        start, tokens, features = self._verified
        self._verified = None
        self.fed(start, [tokens[row] for row in rows], features[list(rows)])

    def fail(self, error: EngineError) -> None:
        self._failure = error

    def _follow(self, context: Sequence[int]) -> None:
        """Encodes what waits, and feeds every entry but the last one that `context` completes."""
        decoder = self._require_decoder()
        while self._waiting:
            part = self._waiting[:ROWS_AT_ONCE]
            self._states.extend(decoder.encode(np.stack(part)))
            del self._waiting[: len(part)]
        end = max(0, min(len(self._states), len(context) - 1) - 1)
        agreed = min(self._agreed(context), end)
        decoder.truncate(agreed)
        del self._fed_tokens[agreed:]
        for start in range(agreed, end, ROWS_AT_ONCE):
            stop = min(end, start + ROWS_AT_ONCE)
            tokens = context[start + 1 : stop + 1]
            decoder.feed(tokens, np.stack(self._states[start:stop]))
            self._fed_tokens.extend(tokens)

    def _agreed(self, context: Sequence[int]) -> int:
        """Leading entries of the decoder's cache that carry the context's tokens."""
        held = self._fed_tokens[: len(context) - 1]
        wanted = list(context[1 : len(held) + 1])
        if held == wanted:
            return len(held)
        return next(i for i, (a, b) in enumerate(zip(held, wanted, strict=True)) if a != b)

    def _require_decoder(self) -> Decoder:
        if self._decoder is None:
            raise DrafterError("it is not connected to the target")
        return self._decoder

    # The drafter's protocol

    def begin(self, prompt: Sequence[int]) -> None:
        self._verified = None
        self._check(prompt)

    def propose(self, round_: DraftRound) -> Proposal:
        return draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        """Nothing to do: the target's cache tells what it kept, whoever proposed it."""

    def close(self) -> None:
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        self._on_close()

    def _check(self, context: Sequence[int]) -> None:
        if self._failure is not None:
            raise self._failure
        if self._tokens != list(context[:-1]):
            raise DrafterError("it has not seen all of the text")

    # Step by step

    def start(self, round_: DraftRound) -> bool:
        self._check(round_.context)
        self._round = round_
        self._drafted = []
        self._row = None
        self._is_behind = True
        return True

    def peek(self) -> float | None:
        if self._round is None:
            raise ValueError("peek before start")
        if self._is_behind:
            if self._drafted and self._ends_generation(self._drafted[-1]):
                return None
            self._row = self._next_row(self._round.context)
            self._is_behind = False
        return confidence(self._current_row())

    def _next_row(self, context: Sequence[int]) -> NDArray[np.float32]:
        decoder = self._require_decoder()
        if self._drafted:
            row, self._state = decoder.draft(self._drafted[-1], self._state)
            return row
        self._follow(context)
        row, self._state = decoder.draft(context[-1], self._states[-1])
        self._fed_tokens.append(context[-1])
        return row

    def _current_row(self) -> NDArray[np.float32]:
        if self._row is None:
            raise ValueError("no token was looked at yet")
        return self._row

    def distribution(self) -> Distribution:
        round_ = self._round
        if round_ is None:
            raise ValueError("distribution before start")
        history = (*round_.sampler.recent(round_.context), *self._drafted)
        return round_.sampler.distribution(self._current_row(), history)

    def advance(self, token: int) -> None:
        self._drafted.append(token)
        self._is_behind = True

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        return likeliest(self._row, count) if self._row is not None else ()

    def predictions(self) -> Sequence[MemberPrediction]:
        return ()
