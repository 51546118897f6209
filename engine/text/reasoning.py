"""What a model's chat template says of thinking, found by reading it and by rendering it.

A variable that the template names is only believed when it changes what is rendered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from engine.data.errors import TemplateError
from engine.data.reasoning import EffortLevels, Reasoning, ThinkingSwitch, Variable
from engine.data.request import Message
from engine.text.thought_styles import KNOWN_TEXTS, markers_in

_SWITCHES: tuple[tuple[str, Variable, Variable], ...] = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_budget", -1, 0),
)
_EFFORTS = ("reasoning_effort", "thinking_effort", "reasoning_strength")
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
_USUAL_LEVELS = ("low", "medium", "high")
_KEEPING = (
    ("preserve_thinking", True),
    ("clear_thinking", False),
    ("truncate_history_thinking", False),
    ("drop_thinking", False),
)
_NAMES = (*(name for name, _, _ in _SWITCHES), *_EFFORTS, *(name for name, _ in _KEEPING))

_LONGEST_SECONDS = 5.0
_PLACEHOLDER = "a thought of long ago"
_ONE = (Message("user", "Hi"),)
_OLDER = (*_ONE, Message("assistant", "Hello", _PLACEHOLDER), Message("user", "Bye"))

_LOG = logging.getLogger(__name__)


class Template(Protocol):
    """See engine.text.chat.ChatTemplate."""

    def look(self, names: Sequence[str], texts: Sequence[str]) -> Mapping[str, Any]: ...

    def render(
        self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None
    ) -> str: ...


def find_reasoning(template: Template) -> Reasoning | None:
    """None for a template that knows no thoughts. TemplateError when it cannot be read."""
    seen = template.look(_NAMES, KNOWN_TEXTS)
    markers = markers_in(frozenset(seen["texts"]))
    if markers is None:
        return None
    probe = _Probe(template)
    names = frozenset(seen["names"])
    switch = _switch(probe, names)
    on = {switch.variable: switch.on} if switch is not None else {}
    keeping = _keeping(probe, names, on)
    return Reasoning(
        markers=markers,
        switch=switch,
        effort=_effort(probe, names, seen["compared"], on),
        keeping=keeping,
        keeps_thoughts=_keeps(probe, on | dict(keeping)),
    )


class _Probe:
    """Renderings to be compared; a template may refuse some values, and a slow one is not asked
    for ever."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._end = time.monotonic() + _LONGEST_SECONDS

    def text(
        self, variables: Mapping[str, Variable], messages: Sequence[Message] = _ONE
    ) -> str | None:
        """None when the template refuses, or when the time is up."""
        if time.monotonic() > self._end:
            _LOG.warning("the chat template is too slow to find out all about its thinking")
            return None
        try:
            return self._template.render(messages, variables)
        except TemplateError as error:
            _LOG.info("a probe of the chat template: %s", error)
            return None


def _switch(probe: _Probe, names: frozenset[str]) -> ThinkingSwitch | None:
    unset = probe.text({})
    for variable, on, off in _SWITCHES:
        if variable not in names:
            continue
        with_on, with_off = probe.text({variable: on}), probe.text({variable: off})
        if None not in (with_on, with_off) and with_on != with_off:
            usual = unset == with_off
            return ThinkingSwitch(variable, on, off, "off" if usual else "on")
    return None


def _effort(
    probe: _Probe,
    names: frozenset[str],
    compared: Mapping[str, Sequence[str]],
    on: Mapping[str, Variable],
) -> EffortLevels | None:
    """Levels that the template compares with; where it only writes them, or compares with one kind
    of them, the usual three besides."""
    for variable in _EFFORTS:
        if variable not in names:
            continue
        named = [level for level in _LEVELS if level in compared[variable]]
        usual = [level for level in _LEVELS if level in named or level in _USUAL_LEVELS]
        for levels in (named, usual):
            texts = {level: probe.text({**on, variable: level}) for level in levels}
            taken = tuple(level for level in levels if texts[level] is not None)
            if len({texts[level] for level in taken}) > 1:
                return EffortLevels(variable, taken)
    return None


def _keeping(
    probe: _Probe, names: frozenset[str], on: Mapping[str, Variable]
) -> tuple[tuple[str, bool], ...]:
    """Of its variables, those that bring a thought back which is dropped without."""
    if _keeps(probe, on):
        return ()
    tried = ((name, value) for name, value in _KEEPING if name in names)
    return tuple((name, value) for name, value in tried if _keeps(probe, {**on, name: value}))


def _keeps(probe: _Probe, variables: Mapping[str, Variable]) -> bool:
    return _PLACEHOLDER in (probe.text(variables, _OLDER) or "")
