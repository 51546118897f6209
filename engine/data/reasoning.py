"""What a chat template says of thinking: how thoughts are marked, and what can be set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.data.errors import BadOptionError

Thinking = Literal["on", "off"]
Variable = str | int | bool


@dataclass(frozen=True, slots=True)
class ThoughtMarkers:
    """start, end: texts that begin and end a thought, any of them.

    between: dropped between a thought and the answer (the head of a channel). closing: dropped from
    the answer. calls: the start of a tool call, which ends a thought and belongs to the answer.
    """

    start: tuple[str, ...]
    end: tuple[str, ...]
    between: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()

    def are_open_in(self, text: str) -> bool:
        """Whether a prompt that ends with `text` has opened a thought, which the reply goes on."""
        return text.rstrip().endswith(tuple(start.rstrip() for start in self.start))


@dataclass(frozen=True, slots=True)
class ThinkingSwitch:
    """The template's variable that turns thinking on and off. usual: what it does without."""

    variable: str
    on: Variable
    off: Variable
    usual: Thinking


@dataclass(frozen=True, slots=True)
class EffortLevels:
    """The template's variable for how much to think, and what it may be, least first."""

    variable: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Of one template. switch, effort: None where it has none.

    keeping: variables that make it write the thoughts of earlier replies, so that the caches still
    hold what was read. keeps_thoughts: whether it writes them, with these.
    """

    markers: ThoughtMarkers
    switch: ThinkingSwitch | None = None
    effort: EffortLevels | None = None
    keeping: tuple[tuple[str, bool], ...] = ()
    keeps_thoughts: bool = False

    def variables(self, thinking: Thinking | None, effort: str | None) -> dict[str, Variable]:
        """What the template is told. The switch always is: unset, it means another thing in every
        template. BadOptionError for what this one does not have."""
        told: dict[str, Variable] = dict(self.keeping)
        if self.switch is not None:
            chosen = thinking or self.switch.usual
            told[self.switch.variable] = self.switch.on if chosen == "on" else self.switch.off
        elif thinking == "off":
            raise BadOptionError("this model always thinks: it has no switch; leave thinking out")
        if effort is not None:
            told |= self._effort(effort)
        return told

    def _effort(self, effort: str) -> Mapping[str, Variable]:
        if self.effort is None:
            raise BadOptionError("this model's thinking has no levels of effort; leave effort out")
        if effort not in self.effort.levels:
            levels = ", ".join(self.effort.levels)
            raise BadOptionError(f"effort must be one of {levels} with this model")
        return {self.effort.variable: effort}


def variables_of(
    reasoning: Reasoning | None, thinking: Thinking | None, effort: str | None
) -> dict[str, Variable]:
    """As Reasoning.variables; a model that does not think has none to be told."""
    if reasoning is not None:
        return reasoning.variables(thinking, effort)
    if thinking == "on" or effort is not None:
        raise BadOptionError("this model does not think; leave thinking and effort out")
    return {}
