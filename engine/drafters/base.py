"""The one protocol between the round loop and anything that proposes tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.data.draft_cost import DraftCost
from engine.data.draft_policy import DraftPolicy
from engine.data.request import DraftMode
from engine.data.rounds import CopySource
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction, Proposal
from engine.maths.randomness import DraftStream
from engine.maths.ranking import Ranking
from engine.maths.sampling import Sampler

TargetNeeds = Literal["nothing", "final hidden state", "layer outputs"]


def _tell_nobody(message: str) -> None:
    """Where nobody reads notices."""


def _note_nowhere(drafter: str, path: tuple[int, ...], source: CopySource) -> None:
    """Where nobody asks what was copied."""


@dataclass(frozen=True, slots=True)
class DraftRound:
    """What a drafter is given each round.

    context: every token so far, the last one not yet in any KV cache. max_depth: hard limit in
    tokens (room in the context, strict width, the request's draft_max). sampler: the request's
    truncation, to be applied to q. mode: how a model drafter picks at temperature > 0.
    max_nodes: of the whole proposal; later nodes would be dropped. report: a notice for the reply's
    reader, which may be given until the round was observed. copied: told by a lookup where the last
    token of a path below the context comes from, should it be proposed.
    """

    context: Sequence[int]
    max_depth: int
    sampler: Sampler
    mode: DraftMode
    stream: DraftStream
    policy: DraftPolicy
    max_nodes: int = 64
    report: Callable[[str], None] = _tell_nobody
    copied: Callable[[str, tuple[int, ...], CopySource], None] = _note_nowhere


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of the round. emitted: new tokens of the context, in order.

    targets: the target's distributions after the last token of the context and after every node of
    the accepted path, so targets[i] is the one that emitted[i] was decided by. features: [rows,
    hidden] float32 of the verified rows on the accepted path, when the drafter declared it needs
    them. rankings: of every verified row, in no order that matters, when it asked for them.
    """

    proposal: Proposal
    accepted_path: tuple[int, ...]
    emitted: tuple[int, ...]
    features: NDArray[np.float32] | None = None
    targets: tuple[Distribution, ...] = ()
    rankings: tuple[Ranking, ...] = ()


class Drafter(Protocol):
    """name: as shown in traces. memory_bytes: weights and KV. needs: of the target's pass.

    max_leaves: of its proposals, 1 for chains.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def needs(self) -> TargetNeeds: ...

    @property
    def max_leaves(self) -> int: ...

    def begin(self, prompt: Sequence[int]) -> None:
        """A reply starts; prompt is the whole context. Reuse what still fits, drop the rest."""
        ...

    def propose(self, round_: DraftRound) -> Proposal: ...

    def observe(self, observation: Observation) -> None:
        """The round's outcome; cut caches back to the accepted path."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Measurable(Protocol):
    """A drafter whose costs can be measured before it drafts."""

    def draft_costs(self) -> Mapping[str, DraftCost]:
        """By the names that the policy is asked with. Forgets the text it has taken in."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A drafter that takes in the prompt before the first round, if that is thought to pay."""

    def prepare(self, policy: DraftPolicy) -> None: ...


@runtime_checkable
class StepDrafter(Drafter, Protocol):
    """A drafter that goes one token at a time, also on a prefix that others chose.

    A draft is start, then any number of peek, distribution, advance. Nothing is computed before
    the first peek, so that a parked drafter costs nothing.
    """

    def start(self, round_: DraftRound) -> bool:
        """Begins a draft on the round's context; False when there is nothing to say."""
        ...

    def peek(self) -> float | None:
        """Confidence in 0..1 of the next token; None when there is nothing more to say."""
        ...

    def distribution(self) -> Distribution:
        """q of the next token, after a peek that was not None."""
        ...

    def advance(self, token: int) -> None:
        """The draft goes on with this token, whoever chose it."""
        ...

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        """Up to `count` likely next tokens with their probabilities, the likeliest first."""
        ...

    def predictions(self) -> Sequence[MemberPrediction]:
        """Of this draft so far, if the drafter is an ensemble."""
        ...
