"""What the kinds have in common that are made of other drafters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.data.errors import BadOptionError
from engine.drafters.base import Drafter, StepDrafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterKind, DrafterPlan, PlanContext

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class GroupKind(DrafterKind):
    """branches: proposes trees whatever its members do."""

    is_group = True
    branches = False

    def normal(self, written: str) -> str:
        raise BadOptionError(f"{self.name} is written {self.usage}")

    def check(self, expression: DrafterExpression) -> None:
        """BadOptionError when the members do not go together."""
        members = expression.members
        if len(members) < 2:
            raise BadOptionError(f"{self.name}(...) needs at least two drafters")
        if len(set(members)) < len(members):
            raise BadOptionError(f"{self.name}(...) names a drafter twice")

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        def open_(build: BuildContext) -> Drafter:
            """Closes members that are open already when one fails."""
            opened: list[Drafter] = []
            try:
                for member in members:
                    opened.append(member.open(build))
                return self.combine(opened, build)
            except BaseException:
                for drafter in opened:
                    drafter.close()
                raise

        return DrafterPlan(
            expression,
            open_,
            memory=tuple(one for member in members for one in member.memory),
            may_branch=self.branches or any(member.may_branch for member in members),
            target_rows=max(member.target_rows for member in members),
            reads_mtp_layer=any(member.reads_mtp_layer for member in members),
            copies=any(member.copies for member in members),
            notes=tuple(dict.fromkeys(note for member in members for note in member.notes)),
        )

    @abstractmethod
    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter: ...

    def steppers(self, members: Sequence[Drafter]) -> list[StepDrafter]:
        """The members, if all of them go token by token. BadOptionError."""
        steppers = []
        for member in members:
            if not isinstance(member, StepDrafter):
                raise BadOptionError(
                    f"{self.name}(...) goes token by token, which {member.name} cannot"
                )
            steppers.append(member)
        return steppers
