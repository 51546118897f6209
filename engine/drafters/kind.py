"""What a kind of drafter is: how it is written, what it needs, how it is opened, how it is shown.

One file a kind, in kinds/ and ensembles/; registry.py lists them. The interface process lists kinds
too and must not load native code, so a kind imports what opens it only when it is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.data.errors import BadOptionError
from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.quoting import unquoted
from engine.files.gguf import GgufInfo
from engine.files.measurements import Measurements
from engine.models.memory import OUTPUT_ROWS, ModelPlan
from engine.models.trained import TrainedDrafter

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan is made from. target: the file. gpu_layers: 0 without a card.

    find_model: a catalogue id, path or Hub address to a file. find_trained(kind, name): what was
    trained for the target, "" for the best. listed_heads(kind): the catalogue's reference, or "".
    """

    target: Path
    info: GgufInfo
    gpu_layers: int
    find_model: Callable[[str], Path]
    find_trained: Callable[[str, str], TrainedDrafter | None]
    listed_heads: Callable[[str], str]
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class DrafterPlan:
    """A drafter that was found, checked against the target and measured, ready to be opened.

    memory: what it brings, as models to be counted. may_branch: its proposals can be trees.
    target_rows: rows of the target's passes that must have logits. reads_mtp_layer: the target must
    be opened with its MTP layer. copies: from earlier texts, which must be at hand. notes: what the
    user should know.
    """

    expression: DrafterExpression
    open: Callable[[BuildContext], Drafter]
    memory: tuple[ModelPlan, ...] = ()
    may_branch: bool = False
    target_rows: int = OUTPUT_ROWS
    reads_mtp_layer: bool = False
    copies: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrafterSettings:
    """What can be set of a drafter of the page's list. tree: nodes, 0 for a chain. layers: left
    out, as "skip=1+2" or "first=8", "" for the usual ones."""

    tree: int = 0
    layers: str = ""


class DrafterKind(ABC):
    """name: in expressions. usage: how it is written. label, description: what the page says.

    tuning: what the page lets one set: "tree" (nodes), "layers" (left out), "siblings" (next-best
    tokens beside its draft). is_group: is made of other drafters. needs_no_file: the page offers it
    by its name alone. copies_target: keeps a file as large as the target at most. reads_mtp_layer:
    of the target. remembers: knows the reply to a prompt that it saw answered before.
    """

    name: str
    usage: str
    label: str
    description: str
    tuning: tuple[str, ...] = ("siblings",)
    is_group = False
    needs_no_file = False
    copies_target = False
    reads_mtp_layer = False
    remembers = False

    def normal(self, written: str) -> str:
        """The argument of an expression from its text. BadOptionError when it cannot be one."""
        argument = unquoted(written)
        if argument:
            raise BadOptionError(f"{self.name} takes no argument")
        return ""

    def model_of(self, expression: DrafterExpression) -> str | None:
        """The GGUF that it brings along, as it is referred to; None if it brings none."""
        return None

    def untuned(self, expression: DrafterExpression) -> tuple[DrafterExpression, DrafterSettings]:
        """As the page's list has it, and what is set of it."""
        return expression, DrafterSettings()

    def tuned(self, expression: DrafterExpression, settings: DrafterSettings) -> DrafterExpression:
        """The other way. BadOptionError for what cannot be set of it."""
        if settings != DrafterSettings():
            raise BadOptionError(f"{self.name} has neither a tree nor layers to set")
        return expression

    @abstractmethod
    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        """Finds files, checks them against the target, counts memory. members: of a group.

        Raises a RequestError or ModelFileError that says why the drafter cannot be used.
        """
