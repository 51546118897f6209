"""From a bench to one sentence of advice, and what to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.bench.figures import BenchReport, ModeFigures
from engine.bench.samples import PLAIN
from engine.bench.speeds import TOKENS
from engine.control.speedup import HURTS, MOST_PROMPTS, PAYS

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
    """mode: the one to choose, None for plain decoding. avoid: modes that made it slower.

    settled: False where the noise is as large as the effect: then nothing is recommended.
    """

    sentence: str
    mode: str | None
    avoid: tuple[str, ...]
    settled: bool = True


def recommend(report: BenchReport, candidates: Sequence[Candidate]) -> Recommendation:
    """The fastest candidate that is known to pay, if there is one."""
    by_mode = {figures.mode: figures for figures in report.overall}
    known = [one for one in candidates if one.mode in by_mode]
    ranked = sorted(known, key=lambda one: by_mode[one.mode].speedup, reverse=True)
    if not ranked:
        return Recommendation("Plain decoding: nothing else was measured.", None, ())
    bad = [one for one in ranked if _hurts(by_mode[one.mode])]
    first = by_mode[ranked[0].mode]
    best = next((one for one in ranked if _is_known_to_pay(by_mode[one.mode])), None)
    if best is None:
        avoid = tuple(one.mode for one in bad)
        if first.speedup >= PAYS:
            sentence = f"Not settled: {ranked[0].label} {_doubt(first)}.{_noise(report)}"
            return Recommendation(sentence, None, avoid, settled=False)
        return _against_all(report, ranked[0], first, avoid)
    sentence = f"{best.label}: {_speedups(report, by_mode[best.mode])}"
    sentence += f" (95 %: {_interval(by_mode[best.mode])}, {by_mode[best.mode].prompts} prompts)"
    if bad:
        sentence += f"; do not use {_listed([one.short for one in bad])}"
    sentence += "."
    if best is not ranked[0]:
        sentence += f" {ranked[0].label} {_doubt(first)}."
    return Recommendation(sentence, best.mode, tuple(one.mode for one in bad))


def _is_known_to_pay(figures: ModeFigures) -> bool:
    return figures.speedup >= PAYS and figures.speedup_settled


def _hurts(figures: ModeFigures) -> bool:
    return figures.speedup <= HURTS and figures.speedup_high < 1.0


def _against_all(
    report: BenchReport, best: Candidate, figures: ModeFigures, avoid: tuple[str, ...]
) -> Recommendation:
    """Nothing pays, as far as is known."""
    sentence = (
        "Plain decoding, no drafter: nothing that was measured pays on this machine; "
        f"the best was {best.label} at {figures.speedup:.2f}x"
    )
    if figures.speedup_most is not None and figures.speedup_most < PAYS:
        # Cut, not rounded: what is said to be the most is never more than that.
        most = int(100 * figures.speedup_most) / 100
        passes = "" if figures.bounded_by == TOKENS else " and the time of their passes"
        limit = f"{sentence}, and its {figures.mean_accepted_length:.2f} tokens a round{passes}"
        return Recommendation(f"{limit} allow {most:.2f}x at most.", None, avoid)
    if figures.speedup_settled or figures.speedup_high < PAYS:
        return Recommendation(f"{sentence}.", None, avoid)
    doubt = f" This is not settled: it {_doubt(figures)}.{_noise(report)}"
    return Recommendation(f"{sentence}.{doubt}", None, avoid, settled=False)


def _interval(figures: ModeFigures) -> str:
    return f"{figures.speedup_low:.2f} to {figures.speedup_high:.2f}x"


def _doubt(figures: ModeFigures) -> str:
    """What is not known of a mode, and what would tell."""
    if figures.prompts == 1:
        return f"was {figures.speedup:.2f}x as fast on one prompt, which settles nothing"
    return (
        f"measured {figures.speedup:.2f}x{_too_much(figures)}, but {figures.prompts} prompts "
        f"leave {_interval(figures)}: the noise is as large as the effect; "
        f"{_what_settles(figures.prompts_needed)}"
    )


def _too_much(figures: ModeFigures) -> str:
    """Said where what is possible was passed by far."""
    most, clock = figures.speedup_most, figures.clock_speedup
    if most is None or clock is None or clock < PAYS * figures.speedup:
        return ""
    return (
        f" (the clock said more than its {figures.mean_accepted_length:.2f} tokens a round allow)"
    )


def _what_settles(prompts: int | None) -> str:
    if prompts is None:
        return f"even {MOST_PROMPTS:,} prompts would not settle it, a quieter machine might"
    return f"about {_rounded_up(prompts)} prompts would settle it"


def _rounded_up(prompts: int) -> int:
    """To ten prompts, or to a hundred: more would claim to know more."""
    step = 1 if prompts <= 10 else 10 if prompts <= 100 else 100
    return -(-prompts // step) * step


def _noise(report: BenchReport) -> str:
    plain = report.figures(PLAIN)
    if plain is None or plain.plain_difference is None:
        return ""
    return (
        f" Plain decoding's own two replies to a prompt differed by {plain.plain_difference:.0%}."
    )


def _speedups(report: BenchReport, together: ModeFigures) -> str:
    """By category, fastest first; of many, the fastest ones and the slowest.

    One prompt says little of its category: where that is all there is, of all prompts together.
    """
    found = [
        (figures.speedup, category, figures.prompts)
        for category, modes in report.by_category.items()
        for figures in modes
        if figures.mode == together.mode
    ]
    found.sort(reverse=True)
    if len(found) == 1 or min(prompts for _, _, prompts in found) == 1:
        return f"{together.speedup:.2f}x"
    named = found
    if len(found) > _NAMED_CATEGORIES:
        named = [*found[: _NAMED_CATEGORIES - 1], found[-1]]
    return ", ".join(f"{speedup:.2f}x on {category}" for speedup, category, _ in named)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
