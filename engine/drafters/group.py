"""What every drafter made of other drafters has in common."""

from __future__ import annotations

from collections.abc import Sequence

from engine.drafters.base import Drafter, Observation, TargetNeeds


class Group:
    """kind: its name in expressions. Owns its members and closes them."""

    kind = "group"

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = tuple(members)

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
        for member in self.members:
            member.begin(prompt)

    def observe(self, observation: Observation) -> None:
        for member in self.members:
            member.observe(observation)

    def close(self) -> None:
        for member in self.members:
            member.close()
