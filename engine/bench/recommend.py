"""From a bench to one sentence of advice, and what to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.bench.figures import BenchReport, ModeFigures

PAYS = 1.03
"""Less than that is not worth a drafter's memory."""

HURTS = 0.97
_NAMED_CATEGORIES = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mode that could be chosen. label: as in "qwen-coder-0.5b as Q4_0, auto".

    short: the name under which the sentence advises against it.
    """

    mode: str
    label: str
    short: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """mode: the one to choose, None for plain decoding. avoid: modes that made it slower."""

    sentence: str
    mode: str | None
    avoid: tuple[str, ...]


def recommend(report: BenchReport, candidates: Sequence[Candidate]) -> Recommendation:
    """The fastest candidate, if it pays at all. Each one must be a mode of the report."""
    by_mode = {figures.mode: figures for figures in report.overall}
    ranked = sorted(candidates, key=lambda one: by_mode[one.mode].speedup, reverse=True)
    bad = [one for one in ranked if _hurts(by_mode[one.mode])]
    if not ranked or by_mode[ranked[0].mode].speedup < PAYS:
        best = ranked[0] if ranked else None
        sentence = _against_all(best, by_mode[best.mode] if best else None)
        return Recommendation(sentence, None, tuple(one.mode for one in bad))
    best = ranked[0]
    sentence = f"{best.label}: {_speedups(report, best.mode)}"
    if by_mode[best.mode].speedup_low < 1.0:
        figures = by_mode[best.mode]
        interval = f"{figures.speedup_low:.2f} to {figures.speedup_high:.2f}x"
        sentence += f" (not certain: {interval} on {figures.prompts} prompts)"
    others = [one for one in bad if one.mode != best.mode]
    if others:
        sentence += f"; do not use {_listed([one.short for one in others])}"
    return Recommendation(f"{sentence}.", best.mode, tuple(one.mode for one in others))


def _hurts(figures: ModeFigures) -> bool:
    return figures.speedup <= HURTS and figures.speedup_high < 1.0


def _against_all(best: Candidate | None, figures: ModeFigures | None) -> str:
    if best is None or figures is None:
        return "Plain decoding: nothing else was measured."
    return (
        "Plain decoding, no drafter: nothing that was measured pays on this machine; "
        f"the best was {best.label} at {figures.speedup:.2f}x."
    )


def _speedups(report: BenchReport, mode: str) -> str:
    """By category, fastest first; of many, the fastest ones and the slowest."""
    found = [
        (figures.speedup, category)
        for category, modes in report.by_category.items()
        for figures in modes
        if figures.mode == mode
    ]
    found.sort(reverse=True)
    if len(found) == 1:
        return f"{found[0][0]:.1f}x"
    named = found
    if len(found) > _NAMED_CATEGORIES:
        named = [*found[: _NAMED_CATEGORIES - 1], found[-1]]
    return ", ".join(f"{speedup:.1f}x on {category}" for speedup, category in named)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
