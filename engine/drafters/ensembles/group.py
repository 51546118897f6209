"""What every drafter made of other drafters has in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from engine.data.draft_cost import DraftCost
from engine.data.draft_policy import DraftPolicy
from engine.data.errors import DrafterError, EngineError
from engine.drafters.base import (
    Drafter,
    DraftRound,
    Measurable,
    Observation,
    Preparing,
    TargetNeeds,
)


class Group:
    """kind: its name in expressions. Owns its members and closes them.

    takes_turns: one member drafts a round, and asks a policy of its own.

    A member that fails is left out for the rest of the reply, the others go on. A failure is taken
    to have nothing to do with what was drawn, so leaving a member out keeps every rule exact.
    """

    kind = "group"
    takes_turns = False

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = tuple(members)
        self._failures: dict[str, EngineError] = {}
        self._untold: list[str] = []
        self._report: Callable[[str], None] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}({','.join(member.name for member in self.members)})"

    @property
    def memory_bytes(self) -> int:
        return sum(member.memory_bytes for member in self.members)

    @property
    def needs(self) -> TargetNeeds:
        """Hidden states first: layer outputs reach their drafter whatever the group declares."""
        needs = {member.needs for member in self.members}
        ordered: tuple[TargetNeeds, ...] = ("final hidden state", "layer outputs")
        return next((need for need in ordered if need in needs), "nothing")

    @property
    def max_leaves(self) -> int:
        return max(member.max_leaves for member in self.members)

    def begin(self, prompt: Sequence[int]) -> None:
        """Members that failed in an earlier reply are tried again."""
        self._failures = {}
        self._untold = []
        self._report = None
        for member in self.members:
            with self.guarded(member):
                member.begin(prompt)

    def draft_costs(self) -> Mapping[str, DraftCost]:
        """Of its members, and their sum under its own name if they draft together."""
        costs: dict[str, DraftCost] = {}
        for member in self.members:
            if isinstance(member, Measurable):
                costs.update(member.draft_costs())
        if self.takes_turns:
            return costs
        own = [costs[member.name] for member in self.members if member.name in costs]
        step, token = sum(cost.step for cost in own), sum(cost.token for cost in own)
        return {**costs, self.name: DraftCost(step, token)}

    def prepare(self, policy: DraftPolicy) -> None:
        for member in self.present():
            if isinstance(member, Preparing):
                with self.guarded(member):
                    member.prepare(policy.of(member.name) if self.takes_turns else policy)

    def observe(self, observation: Observation) -> None:
        for member in self.present():
            with self.guarded(member):
                member.observe(observation)

    def close(self) -> None:
        for member in self.members:
            member.close()

    # Members that fail

    def open_round(self, round_: DraftRound) -> None:
        """To be called when a round starts: what failed before it is told now."""
        self._report = round_.report
        for message in self._untold:
            round_.report(message)
        self._untold = []

    def present(self) -> tuple[Drafter, ...]:
        """The members that have not failed in this reply."""
        return tuple(member for member in self.members if self.has(member))

    def has(self, member: Drafter) -> bool:
        return member.name not in self._failures

    @contextmanager
    def guarded(self, member: Drafter) -> Iterator[None]:
        """An error of the member ends the block; DrafterError when no member is left."""
        try:
            yield
        except EngineError as error:
            self._failures[member.name] = error
            if not self.present():
                raise self._all_failed(error) from error
            self._tell(f"{member.name} failed and left {self.kind}(...) for this reply: {error}")

    def _all_failed(self, error: EngineError) -> EngineError:
        if len(self.members) == 1:
            return error
        reasons = "; ".join(f"{name}: {failure}" for name, failure in self._failures.items())
        return DrafterError(f"all its members failed ({reasons})")

    def _tell(self, message: str) -> None:
        if self._report is None:
            self._untold.append(message)
        else:
            self._report(message)


def members_of(drafter: Drafter) -> tuple[Drafter, ...]:
    """Those it is made of, () if it stands alone."""
    return drafter.members if isinstance(drafter, Group) else ()
