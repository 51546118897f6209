"""A draft model (Leviathan et al. 2023, arXiv 2211.17192)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.draft_cost import DraftCost
from engine.data.draft_policy import DraftPolicy
from engine.data.errors import DrafterError
from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.stepping import draft_chain
from engine.llama.context import Context
from engine.llama.native_context import PREFILL_CHUNK
from engine.llama.threads import use_threads
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction, Proposal
from engine.maths.ranking import likeliest
from engine.maths.sampling import confidence

_COMPARED_AT_ONCE = 256
_MEASURED_TOKENS = 48
_MEASURED_STEPS = 5


class Translation(Protocol):
    """Between the target's token ids and the draft model's."""

    def begin(self, prompt: Sequence[int]) -> None:
        """A reply starts with this context of target ids."""
        ...

    def follow(self, context: Sequence[int]) -> Sequence[int]:
        """The drafter's ids for a context that goes on from the one begun with.

        DrafterError when it cannot be put into them.
        """
        ...

    def step(self, token: int) -> Sequence[int]:
        """The drafter's ids for one target token."""
        ...

    def logits(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """A row over the drafter's ids as one over target ids; -inf where there is no match."""
        ...


class SameTokens:
    """Both have the same tokenizer. limit: ids from here on exist on one side only."""

    def __init__(self, limit: int, drafter_size: int) -> None:
        self._limit = limit
        self._drafter_size = drafter_size
        self._checked = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._checked = 0

    def follow(self, context: Sequence[int]) -> Sequence[int]:
        self._check_known(context[self._checked :])
        self._checked = len(context)
        return context

    def step(self, token: int) -> Sequence[int]:
        self._check_known((token,))
        return (token,)

    def logits(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        return row[: self._limit]

    def _check_known(self, tokens: Sequence[int]) -> None:
        if max(tokens, default=0) >= self._drafter_size:
            raise DrafterError("the text holds a token that the drafter's vocabulary lacks")


class ModelDrafter:
    """Drafts a chain, one pass a token. on_close frees what it owns besides the context."""

    needs: TargetNeeds = "nothing"
    max_leaves = 1

    def __init__(
        self,
        name: str,
        context: Context,
        translation: Translation,
        memory_bytes: int,
        on_close: Callable[[], None],
    ) -> None:
        self.name = name
        self.description = context.model.description
        self.memory_bytes = memory_bytes
        self._context = context
        self._translation = translation
        self._on_close = on_close
        self._round: DraftRound | None = None
        self._drafted: list[int] = []  # target ids
        self._wanted: Sequence[int] = ()  # drafter ids of the context
        self._agreed = 0  # how many of them the cache holds, when a draft starts
        self._waiting: list[int] = []  # drafter ids that the next pass takes in
        self._row: NDArray[np.float32] | None = None

    def begin(self, prompt: Sequence[int]) -> None:
        self._translation.begin(prompt)
        self._wanted = self._translation.follow(prompt)
        self._context.reuse(self._wanted[:-1])

    def prepare(self, policy: DraftPolicy) -> None:
        """Takes in the prompt, if the policy lets it: a parked drafter is to cost nothing."""
        wanted = self._wanted[:-1]
        if policy.may_catch_up(len(wanted) - len(self._context.tokens)):
            self._feed(wanted)

    def draft_costs(self) -> Mapping[str, DraftCost]:
        context = self._context
        token = max(context.model.vocab.bos, 1)
        length = min(_MEASURED_TOKENS, context.length_limit - 1)
        context.clear()
        context.feed([token] * length)  # sets things up
        context.clear()
        started = time.perf_counter()
        context.feed([token] * length)
        per_token = (time.perf_counter() - started) / length
        steps = []
        for _ in range(_MEASURED_STEPS):
            started = time.perf_counter()
            context.extend_to_last([token])
            steps.append(time.perf_counter() - started)
            context.truncate(length)
        context.clear()
        return {self.name: DraftCost(statistics.median(steps), per_token)}

    def use_threads(self, threads: int) -> None:
        use_threads(self._context.handle, threads)

    def rehearse(self) -> None:
        length = len(self._context.tokens)
        self._context.extend_to_last([max(self._context.model.vocab.bos, 1)])
        self._context.truncate(length)

    def propose(self, round_: DraftRound) -> Proposal:
        return draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        """Nothing to do: the next draft drops what the target rejected."""

    def close(self) -> None:
        self._context.close()
        self._on_close()

    # Step by step

    def start(self, round_: DraftRound) -> bool:
        self._round = round_
        self._drafted = []
        self._waiting = []
        self._row = None
        self._wanted = self._translation.follow(round_.context)
        if len(self._wanted) > self._context.length_limit:
            return False
        held = _common_prefix(self._context.tokens, self._wanted)
        self._agreed = min(held, len(self._wanted) - 1)
        return round_.policy.may_catch_up(len(self._wanted) - 1 - self._agreed)

    def peek(self) -> float | None:
        if not self._has_room or self._is_over:
            return None
        if self._row is None or self._waiting:
            self._row = self._translation.logits(self._next_logits())
            self._waiting = []
        return confidence(self._row)

    def distribution(self) -> Distribution:
        round_, row = self._round, self._row
        if round_ is None or row is None:
            raise ValueError("distribution before start and peek")
        history = (*round_.sampler.recent(round_.context), *self._drafted)
        return round_.sampler.distribution(row, history)

    def advance(self, token: int) -> None:
        self._drafted.append(token)
        self._waiting.extend(self._translation.step(token))

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        if self._row is None:
            return ()
        return likeliest(self._row, count)

    def predictions(self) -> Sequence[MemberPrediction]:
        return ()

    @property
    def _has_room(self) -> bool:
        if self._row is None:
            return len(self._wanted) <= self._context.length_limit
        return len(self._context.tokens) + len(self._waiting) <= self._context.length_limit

    @property
    def _is_over(self) -> bool:
        """The last drafted token ends the reply."""
        vocab = self._context.model.vocab
        return bool(self._waiting) and vocab.ends_generation(self._waiting[-1])

    def _next_logits(self) -> NDArray[np.float32]:
        if self._row is None:
            return self._catch_up()
        return self._context.extend_to_last(self._waiting)

    def _catch_up(self) -> NDArray[np.float32]:
        """Makes the cache equal to the context; returns the logits after its last token."""
        wanted = [*self._wanted, *self._waiting]
        self._context.truncate(self._agreed)
        if len(wanted) - self._agreed > PREFILL_CHUNK:
            self._feed(wanted[:-1])
        return self._context.extend_to_last(wanted[len(self._context.tokens) :])

    def _feed(self, tokens: Sequence[int]) -> None:
        for start in range(len(self._context.tokens), len(tokens), PREFILL_CHUNK):
            self._context.feed(tokens[start : start + PREFILL_CHUNK])


def _common_prefix(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many leading tokens are the same."""
    limit = min(len(held), len(wanted))
    start = 0
    while start < limit:
        end = min(start + _COMPARED_AT_ONCE, limit)
        if held[start:end] != wanted[start:end]:
            break
        start = end
    while start < limit and held[start] == wanted[start]:
        start += 1
    return start
