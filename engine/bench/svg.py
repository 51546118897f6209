"""Small plots as SVG text: grouped bars with intervals, stacked bars, lines.

Colours are the classes s0 to s7, axis and faint of the document's style sheet, so that a plot is
readable on light and on dark paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 760
_LEFT = 200
_RIGHT = 64
_BAR = 15
_GROUP_GAP = 12
_AXIS = 26
COLOURS = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """low, high: ends of its interval, None for none."""

    series: int
    value: float
    low: float | None = None
    high: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """points: (x, y), in any order."""

    series: int
    name: str
    points: tuple[tuple[float, float], ...]


def grouped_bars(title: str, groups: Sequence[Group], reference: float | None = None) -> str:
    """Horizontal bars from 0; a line stands at `reference`."""
    ends = [max(bar.value, bar.high or 0.0) for group in groups for bar in group.bars]
    scale = _Scale(0.0, max([*ends, reference or 0.0]), _LEFT, _WIDTH - _RIGHT)
    parts: list[str] = []
    y = 8.0
    for group in groups:
        middle = y + len(group.bars) * _BAR / 2 + 4
        parts.append(_text(_LEFT - 8, middle, group.label, "end"))
        for bar in group.bars:
            parts.extend(_bar(bar, scale, y))
            y += _BAR
        y += _GROUP_GAP
    axis = _x_axis(scale, y)
    if reference is not None:
        axis.append(_line(scale(reference), 0, scale(reference), y, "reference"))
    return _document(title, y + _AXIS, [*axis, *parts])


def stacked_bars(title: str, rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """One bar a row, its parts side by side; parts are shares of 1."""
    scale = _Scale(0.0, 1.0, _LEFT, _WIDTH - _RIGHT)
    parts: list[str] = []
    y = 8.0
    for label, shares in rows:
        parts.append(_text(_LEFT - 8, y + _BAR - 3, label, "end"))
        at = 0.0
        for series, share in enumerate(shares):
            width = scale(at + share) - scale(at)
            parts.append(_rectangle(scale(at), y, width, _BAR, series, f"{share:.0%}"))
            at += share
        y += _BAR + 6
    return _document(title, y + _AXIS, [*_x_axis(scale, y, percent=True), *parts])


def lines(title: str, series: Sequence[Line], *, percent: bool = False) -> str:
    """Lines with a dot at every point, both axes from 0; x is a count."""
    points = [point for one in series for point in one.points]
    height = 240.0
    across = _Scale(0.0, max(x for x, _ in points), 60, _WIDTH - _RIGHT)
    up = _Scale(0.0, max(y for _, y in points), height, 12)
    parts = _x_axis(across, height, whole=True)
    for tick in up.ticks():
        label = f"{tick:.0%}" if percent else f"{tick:g}"
        parts.append(_text(52, up(tick) + 4, label, "end"))
        parts.append(_line(60, up(tick), _WIDTH - _RIGHT, up(tick), "faint"))
    for one in series:
        ordered = sorted(one.points)
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in ordered)
        colour = f"s{one.series % COLOURS}"
        parts.append(f'<polyline class="line {colour}" points="{path}"/>')
        for x, y in ordered:
            hint = f"<title>{escape(one.name)}: {x:g}, {y:.3g}</title>"
            parts.append(
                f'<circle class="{colour}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3">{hint}'
                "</circle>"
            )
    return _document(title, height + _AXIS, parts)


class _Scale:
    """Values to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = low
        self._high = high if high > low else low + 1.0
        self._start = start
        self._end = end

    def __call__(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """Round numbers, about six of them."""
        raw = max((self._high - self._low) / 6, 1.0 if whole else 0.0)
        power: float = 10.0 ** math.floor(math.log10(raw))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
        count = int((self._high - self._low) / step + 1e-9)
        return [self._low + step * index for index in range(count + 1)]


def _bar(bar: Bar, scale: _Scale, y: float) -> list[str]:
    label = bar.text or f"{bar.value:.2f}"
    parts = [_rectangle(scale(0), y, scale(bar.value) - scale(0), _BAR - 2, bar.series, label)]
    end = bar.value
    if bar.low is not None and bar.high is not None:
        middle = y + (_BAR - 2) / 2
        parts.append(_line(scale(bar.low), middle, scale(bar.high), middle, "whisker"))
        for edge in (bar.low, bar.high):
            parts.append(_line(scale(edge), middle - 3, scale(edge), middle + 3, "whisker"))
        end = max(end, bar.high)
    parts.append(_text(scale(end) + 5, y + _BAR - 4, label, "start"))
    return parts


def _x_axis(scale: _Scale, y: float, *, percent: bool = False, whole: bool = False) -> list[str]:
    parts = []
    for tick in scale.ticks(whole=whole):
        label = f"{tick:.0%}" if percent else f"{tick:g}"
        parts.append(_line(scale(tick), 0, scale(tick), y, "faint"))
        parts.append(_text(scale(tick), y + 16, label, "middle"))
    return parts


def _rectangle(x: float, y: float, width: float, height: float, series: int, hint: str) -> str:
    return (
        f'<rect class="s{series % COLOURS}" x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" '
        f'height="{height:.1f}"><title>{escape(hint)}</title></rect>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _document(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
