"""What is known of a pair on this machine: measured once, kept in the data folder, used at loads.

Pass times are kept per model file, number of threads, setup, device and library version; how often
a drafter was right is kept per pair of models.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.control.advice import advice, break_evens
from engine.control.auto_draft import AutoDraft
from engine.control.cost import CostModel, between
from engine.data.draft_cost import DraftCost
from engine.data.errors import RunError
from engine.data.folders import DataFolder
from engine.data.loaded import DraftSpeed, SpeedSummary
from engine.data.widths import WidthClass
from engine.drafters.base import Drafter, Measurable
from engine.files.measurements import PASSES, Measurements, measurement_key
from engine.llama.abort import AbortFlag
from engine.llama.context import Context
from engine.llama.library import devices
from engine.llama.model import Model
from engine.measure.attention import CLEARLY, plain_attention_ratio
from engine.measure.calibrate import Calibration, calibrate, plain_seconds
from engine.measure.exact_cost import filled_up
from engine.measure.exact_widths import Trial, try_widths
from engine.models.memory import ModelPlan, estimate, free_ram
from engine.serving.plan import LoadPlan, Report

_MEMORY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Setup:
    """How a target is loaded. repack: weights rearranged for this processor's kernels.

    plain_attention: without llama.cpp's fused kernel ("flash attention").
    """

    threads: int
    repack: bool = True
    plain_attention: bool = False

    @property
    def flash_attention(self) -> bool | None:
        """None leaves it to llama.cpp, which knows where it has no such kernel."""
        return False if self.plain_attention else None


@dataclass(frozen=True, slots=True)
class OpenedPair:
    """A target's context, and what drafts for it."""

    context: Context
    drafter: Drafter | None


class Tuning:
    """abort: ends a measurement with StopRequested."""

    def __init__(self, folder: DataFolder, library_version: str, abort: AbortFlag) -> None:
        self._abort = abort
        self._measured = Measurements(folder.measurements_file)
        self._learned = Measurements(folder.learned_file)
        self._version = library_version

    # Measured

    def setup(self, plan: LoadPlan) -> Setup:
        """The fastest setup found by `forerun calibrate`, else the usual one."""
        found = self._measured.get(self._setup_key(plan))
        if plan.request.threads or found is None or found.keys() != {"threads", "repack"}:
            return Setup(plan.threads)
        return Setup(int(found["threads"]), bool(found["repack"]))

    def keep_setup(self, plan: LoadPlan, setup: Setup) -> None:
        self._put(self._setup_key(plan), {"threads": setup.threads, "repack": setup.repack})

    def with_attention(self, plan: LoadPlan, setup: Setup, model: Model, report: Report) -> Setup:
        """The setup with the faster attention, measured at the first load. Stays with llama.cpp's
        choice where there is none."""
        ratio = self.attention_ratio(plan, setup, model, report)
        return replace(setup, plain_attention=ratio is not None and ratio < CLEARLY)

    def attention_ratio(
        self, plan: LoadPlan, setup: Setup, model: Model, report: Report
    ) -> float | None:
        """Time of plain products as a fraction of the fused kernel's. None on graphics cards, and
        where plain products would not fit into memory."""
        needed = estimate(ModelPlan(plan.info, flash_attention=False), plan.context_length)
        on_card = bool(devices()) and plan.request.gpu_layers != 0
        bytes_needed = needed.kv + needed.states + needed.buffers
        if on_card or bytes_needed > _MEMORY_SHARE * free_ram():
            return None
        key = self._key("attention", plan, replace(setup, plain_attention=False))
        found = self._measured.get(key)
        ratio = None if found is None else found.get("share")
        if not isinstance(ratio, float) or ratio <= 0.0:
            report("measuring this machine", 0.0)
            ratio = plain_attention_ratio(model, setup.threads, self._abort)
            self._put(key, {"share": ratio})
        return ratio

    def known_widths(self, plan: LoadPlan, setup: Setup) -> Trial | None:
        """Which widths of passes agree in this setup, if that was tried before."""
        content = self._measured.get(self._key("widths", plan, setup))
        if content is not None:
            # Of another version, or damaged: then it is tried again.
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                return Trial.from_json(content)
        return None

    def try_widths(self, plan: LoadPlan, setup: Setup, model: Model, report: Report) -> Trial:
        report("finding passes that agree bit for bit", 0.0)
        found = try_widths(model, setup.threads, self._abort, flash_attention=setup.flash_attention)
        self._put(self._key("widths", plan, setup), found.to_json())
        return found

    def pair(
        self,
        plan: LoadPlan,
        setup: Setup,
        opened: OpenedPair,
        report: Report,
        *,
        thorough: bool,
    ) -> PairSpeed:
        """Measures what is not known yet. Clears target's and drafters' caches."""
        context, drafter = opened.context, opened.drafter
        measure = self._measure if thorough else self._calibration
        calibration = measure(plan, setup, context, report)
        if context.options.exact is not None:
            calibration = _filled(calibration, context.options.exact)
        costs: Mapping[str, DraftCost] = {}
        if isinstance(drafter, Measurable):
            costs = drafter.draft_costs()
        auto = AutoDraft(CostModel(calibration.passes, calibration.per_cached, costs))
        self._recall(plan, auto)
        return PairSpeed(plan, setup, calibration, costs, auto)

    def _calibration(
        self, plan: LoadPlan, setup: Setup, context: Context, report: Report
    ) -> Calibration:
        """Known figures at the machine's present speed, or new ones. Clears the context."""
        key = self._key(PASSES, plan, setup)
        content = self._measured.get(key)
        known = None
        if content is not None:
            # Of another version, or damaged: then it is measured again.
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                known = Calibration.from_json(content)
        if known is not None:
            return known.scaled(plain_seconds(context) / known.passes[1])
        return self._measure(plan, setup, context, report, thorough=False)

    def _measure(
        self,
        plan: LoadPlan,
        setup: Setup,
        context: Context,
        report: Report,
        *,
        thorough: bool = True,
    ) -> Calibration:
        def step(fraction: float) -> None:
            report("measuring this machine", fraction)

        measured = calibrate(context, thorough=thorough, report=step)
        self._put(self._key(PASSES, plan, setup), measured.to_json())
        return measured

    def _put(self, key: str, content: dict[str, Any]) -> None:
        try:
            self._measured.put(key, content)
        except OSError as error:
            raise RunError(
                f"{self._measured.file} cannot be written ({error.strerror or error}); "
                "free some space, or choose another --data-dir"
            ) from error

    def _key(self, kind: str, plan: LoadPlan, setup: Setup) -> str:
        place = f"threads={setup.threads}|repack={setup.repack}"
        place += "|plain attention" if setup.plain_attention else ""
        return measurement_key(kind, plan.target.path, f"{place}|{self._device(plan)}")

    def _setup_key(self, plan: LoadPlan) -> str:
        return measurement_key("setup", plan.target.path, self._device(plan))

    def _device(self, plan: LoadPlan) -> str:
        """Where passes run, and the build that runs them: another card takes other times, and its
        passes agree at other widths. A build for cards uses them even where no layer is there."""
        cards = "".join(f"|{card.name} {card.description}" for card in devices())
        return f"gpu={plan.request.gpu_layers}|{self._version}{cards}"

    # Learned

    def _recall(self, plan: LoadPlan, auto: AutoDraft) -> None:
        content = self._learned.get(_pair_key(plan))
        if content is not None:
            # Of another version, or damaged: then it is learned again.
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                auto.recall(content)

    def keep(self, pair: PairSpeed) -> None:
        """After a reply. Raises OSError."""
        self._learned.put(_pair_key(pair.plan), pair.auto.to_json())
        if pair.auto.has_drifted:  # passes take other times than they did: measure at next load
            self._measured.put(self._key(PASSES, pair.plan, pair.setup), {})


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """What was measured of a loaded pair, and the controller that lives on it."""

    plan: LoadPlan
    setup: Setup
    calibration: Calibration
    costs: Mapping[str, DraftCost]
    auto: AutoDraft

    def summary(self) -> SpeedSummary:
        """Drafters whose costs are not known before they draft are left out."""
        cost = CostModel(self.calibration.passes)
        speeds = []
        for name, one in self.costs.items():
            if one.step > 0.0:
                evens = break_evens(cost, one.step)
                said = advice(name, evens, self.calibration.spread)
                speeds.append(DraftSpeed(name, one.step, one.token, evens, said))
        return SpeedSummary(
            self.calibration.passes,
            self.calibration.prefill,
            self.setup.threads,
            self.setup.repack,
            tuple(speeds),
            {str(kind): value for kind, value in self.auto.predictions().items()},
            self.setup.plain_attention,
        )


def _filled(calibration: Calibration, widths: WidthClass) -> Calibration:
    """What passes cost that are filled up to a width of the class."""

    def table(measured: Mapping[int, float]) -> dict[int, float]:
        known = {width: between(measured, width) for width in widths.widths}
        return filled_up(known, widths)

    return replace(
        calibration, passes=table(calibration.passes), per_cached=table(calibration.per_cached)
    )


def _pair_key(plan: LoadPlan) -> str:
    target: Path = plan.target.path
    drafter = plan.drafter.expression if plan.drafter is not None else None
    return measurement_key("drafting", target, str(drafter))


def chat_seconds(calibration: Calibration) -> float:
    """Of a turn of a chat, plain: what setups are compared by."""
    return _TURN_PROMPT / calibration.prefill + _TURN_REPLY * calibration.passes[1]


_TURN_PROMPT = 200
_TURN_REPLY = 200
