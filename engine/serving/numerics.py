"""Fast or strict numerics for a load, and which class of widths: what costs least here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from engine.data.widths import WidthClass
from engine.llama.model import Model
from engine.measure.exact_cost import added_cost, mean_seconds
from engine.measure.exact_widths import Trial
from engine.serving.plan import LoadPlan, Report
from engine.serving.tuning import Setup

CHEAP = 0.05
"""Added cost below which numerics are strict unless something else was asked for."""
_NEVER_REPACKED = frozenset({"F32", "F16", "BF16"})

OpenTarget = Callable[[bool], Model]
"""Opens the target with weights repacked or not; what it opened before is closed."""


class Measured(Protocol):
    """What is known of targets on this machine; see engine.serving.tuning.Tuning."""

    def attention_ratio(
        self, plan: LoadPlan, setup: Setup, model: Model, report: Report
    ) -> float | None: ...

    def known_widths(self, plan: LoadPlan, setup: Setup) -> Trial | None: ...

    def try_widths(self, plan: LoadPlan, setup: Setup, model: Model, report: Report) -> Trial: ...


@dataclass(frozen=True, slots=True)
class ExactSetup:
    """added: the fraction by which text takes longer than in the fastest way."""

    setup: Setup
    widths: WidthClass
    added: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    """seconds: per token of text, for comparing candidates."""

    exact: ExactSetup
    seconds: float

    @property
    def can_draft(self) -> bool:
        return self.exact.widths.widest > 1

    @property
    def is_cheap(self) -> bool:
        return self.can_draft and self.exact.added < CHEAP


class NumericsChoice:
    def __init__(self, tuning: Measured, open_target: OpenTarget, report: Report) -> None:
        self._tuning = tuning
        self._open_target = open_target
        self._report = report

    def choose(self, plan: LoadPlan, usual: Setup) -> ExactSetup | None:
        """None for fast numerics. usual: the fastest setup.

        Layout and attention are tried in turn until a class costs next to nothing. The class does
        not depend on the drafter, so texts agree from one to the next; trees alone rule out setups
        in which their branches change rows.
        """
        numerics = plan.request.numerics
        branches = plan.drafter is not None and plan.drafter.may_branch
        if numerics == "fast":
            return None
        if numerics == "auto" and plan.info.sliding_window and not branches:
            return None  # strict ones would need more memory, see keeps_whole_windows
        if numerics == "auto" and plan.info.recurrent:
            return None  # nothing could be drafted
        ratio = self._tuning.attention_ratio(
            plan, usual, self._open_target(usual.repack), self._report
        )
        found: list[_Candidate] = []
        free: dict[bool, float] = {}  # seconds in any widths, by layout
        for setup in _setups(plan, usual, has_choice=ratio is not None):
            slower = _slower(setup, usual, ratio)
            if numerics == "auto" and slower - 1.0 >= CHEAP:
                continue  # its attention alone costs too much
            trial = self._trial(plan, setup)
            measured = mean_seconds(trial.seconds, WidthClass(tuple(sorted(trial.seconds))))
            seconds = free.setdefault(setup.repack, measured) * slower / measured
            for one in trial.classes:
                if one.branches or not branches:
                    added = (1.0 + added_cost(trial.seconds, one.widths)) * slower - 1.0
                    exact = ExactSetup(setup, one.widths, added)
                    own = seconds * mean_seconds(trial.seconds, one.widths)
                    found.append(_Candidate(exact, own))
            if any(one.is_cheap for one in found):
                break
        best = _best(found, numerics == "auto")
        if best is None and numerics == "strict":
            return ExactSetup(usual, WidthClass((1,)), 0.0)  # one row always agrees with itself
        return best

    def _trial(self, plan: LoadPlan, setup: Setup) -> Trial:
        known = self._tuning.known_widths(plan, setup)
        if known is not None:
            return known
        return self._tuning.try_widths(plan, setup, self._open_target(setup.repack), self._report)


def _setups(plan: LoadPlan, usual: Setup, *, has_choice: bool) -> Iterator[Setup]:
    """The usual one first. has_choice: between plain and fused attention."""
    layouts = [usual.repack]
    if plan.request.numerics == "strict" and plan.info.quant not in _NEVER_REPACKED:
        layouts.append(not usual.repack)
    for repack in layouts:
        yield replace(usual, repack=repack)
        if has_choice:
            yield replace(usual, repack=repack, plain_attention=not usual.plain_attention)


def _slower(setup: Setup, usual: Setup, ratio: float | None) -> float:
    """How many times as long its attention takes. ratio: plain attention's time to the fused."""
    if setup.plain_attention == usual.plain_attention or ratio is None:
        return 1.0
    return ratio if setup.plain_attention else 1.0 / ratio


def _best(found: list[_Candidate], only_cheap: bool) -> ExactSetup | None:
    """A class of single rows leaves nothing to draft: only where there is no other."""
    if only_cheap:
        good = [one for one in found if one.is_cheap]
    else:
        good = [one for one in found if one.can_draft] or found
    return min(good, key=lambda one: one.seconds).exact if good else None
