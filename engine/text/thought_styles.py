"""How models mark their thoughts: one line a style.

A style belongs to a template that writes or looks for one of its `known` texts, and for all that it
`needs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.data.reasoning import ThoughtMarkers

_CALLS = (
    "<tool_call>",
    "<tool_calls>",
    "<|tool_call|>",
    "<|tool_call>",
    "<|tool_call_start|>",
    "<|tool_calls_section_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<|START_ACTION|>",
    "<seed:tool_call>",
    "[TOOL_CALLS]",
)


@dataclass(frozen=True, slots=True)
class _Style:
    known: tuple[str, ...]
    markers: ThoughtMarkers
    needs: frozenset[str] = frozenset()


def _pair(start: str, end: str, *known: str) -> _Style:
    return _Style(known or (start, end), ThoughtMarkers((start,), (end,)))


_CHANNELS = ThoughtMarkers(
    start=("<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"),
    end=("<|end|>",),
    between=("<|start|>assistant", "<|channel|>final<|message|>"),
)
_RESPONSE = ThoughtMarkers(("<think>",), ("</think>",), ("<response>",), ("</response>",))
_SOLAR = ThoughtMarkers(("<|think|>",), ("<|end|>",), ("<|begin|>assistant", "<|content|>"))
_PLAIN_SENTENCE = ThoughtMarkers(
    ("Here are my reasoning steps:",), ("[BEGIN FINAL RESPONSE]",), (), ("<|end|>",)
)

_STYLES = (
    _Style(("<|channel|>analysis<|message|>",), _CHANNELS),
    _Style(("[BEGIN FINAL RESPONSE]",), _PLAIN_SENTENCE),
    _Style(("<response>",), _RESPONSE, frozenset({"<think>"})),
    _pair("<|channel>thought", "<channel|>"),
    _pair("[THINK]", "[/THINK]"),
    _pair("<seed:think>", "</seed:think>"),
    _pair("<mm:think>", "</mm:think>"),
    _pair("<|START_THINKING|>", "<|END_THINKING|>"),
    _pair("<|inner_prefix|>", "<|inner_suffix|>"),
    _Style(("<|think|>",), _SOLAR),
    _pair("<think>", "</think>"),
    _pair("<thinking>", "</thinking>"),
)
"""The first that a template knows is its own: some also name the markers of others."""

KNOWN_TEXTS = (*dict.fromkeys(text for style in _STYLES for text in style.known), *_CALLS)


def markers_in(texts: frozenset[str]) -> ThoughtMarkers | None:
    """texts: those of KNOWN_TEXTS that a template has. None: it knows no thoughts."""
    calls = tuple(text for text in _CALLS if text in texts)
    for style in _STYLES:
        if style.needs <= texts and not texts.isdisjoint(style.known):
            return replace(style.markers, calls=calls)
    return None
