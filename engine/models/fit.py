"""Will it fit? The estimates of a load against the memory of this machine and of its cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.data.device import Room
from engine.models.memory import LEAST_CONTEXT, ModelPlan, estimate

WARN_SHARE = 0.85
_GB = 1e9

Level = Literal["ok", "warn", "refuse"]


@dataclass(frozen=True, slots=True)
class FitReport:
    """level "warn": it fits but leaves little; "refuse": it does not fit. Sizes in bytes, of the
    memory that is the tighter one. gpu_layers: of the target, as many as would fit; None where
    that is not the question."""

    level: Level
    message: str
    needed: int
    free: int
    largest_context: int
    gpu_layers: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def needed_room(plans: Sequence[ModelPlan], context_length: int) -> Room:
    """context_length: tokens, the same for all (0: the target's own, plans[0])."""
    context = context_length or plans[0].info.context_length
    estimates = [estimate(plan, context) for plan in plans]
    return Room(sum(one.host for one in estimates), sum(one.device for one in estimates))


def check_fit(plans: Sequence[ModelPlan], context_length: int, free: Room) -> FitReport:
    """Compare the models of one load with what is free, and say what would fit.

    context_length: tokens, the same for all (0: the target's own, plans[0]). free: with what a load
    that is about to be replaced will give back.
    """
    context = context_length or plans[0].info.context_length
    verdict = _verdict(plans, context, free)
    fitting, layers = context, None
    if verdict.level == "refuse":
        fitting = _largest_context(plans, context, free)
        layers = _most_layers(plans, context, free) if verdict.on_card else None
    return FitReport(
        verdict.level,
        _message(plans, verdict, context, fitting, layers),
        verdict.needed,
        verdict.free,
        fitting,
        layers,
    )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """needed, free: bytes of the memory that is the tighter one. on_card: it is the card's."""

    level: Level
    needed: int
    free: int
    on_card: bool

    @property
    def numbers(self) -> str:
        place = "on the graphics card" if self.on_card else "of RAM"
        if self.level == "refuse":
            return f"needs {_size(self.needed)} {place}, {_size(self.free)} are free"
        return f"needs {_size(self.needed)} of {_size(self.free)} free {place}"


def _verdict(plans: Sequence[ModelPlan], context: int, free: Room) -> _Verdict:
    room = needed_room(plans, context)
    on_card = room.device / max(free.device, 1) > room.host / max(free.host, 1)
    needed, available = (room.device, free.device) if on_card else (room.host, free.host)
    level: Level = "warn" if needed > WARN_SHARE * available else "ok"
    return _Verdict("refuse" if needed > available else level, needed, available, on_card)


def _largest_context(plans: Sequence[ModelPlan], context: int, free: Room) -> int:
    """Largest fitting multiple of LEAST_CONTEXT below the wish, 0 if none fits."""

    def fits(steps: int) -> bool:
        return _verdict(plans, steps * LEAST_CONTEXT, free).level != "refuse"

    return _most(fits, context // LEAST_CONTEXT) * LEAST_CONTEXT


def _most_layers(plans: Sequence[ModelPlan], context: int, free: Room) -> int | None:
    """Of the target on the card, the drafters staying where they are; None if not even without
    the card it fits."""

    def fits(layers: int) -> bool:
        fewer = [replace(plans[0], gpu_layers=layers), *plans[1:]]
        return _verdict(fewer, context, free).level != "refuse"

    return _most(fits, plans[0].info.block_count) if fits(0) else None


def _most(fits: Callable[[int], bool], limit: int) -> int:
    """Largest number up to the limit that fits, where all smaller ones do; 0 if none does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _message(
    plans: Sequence[ModelPlan], verdict: _Verdict, context: int, fitting: int, layers: int | None
) -> str:
    if verdict.level == "ok":
        return verdict.numbers
    if verdict.level == "warn":
        return f"{verdict.numbers}: little is left for other programs"
    ways = [f"a context of {fitting:,} instead of {context:,}"] if fitting else []
    if layers:
        ways.append(f"{layers} of its {plans[0].info.block_count} layers there (GPU layers)")
    elif layers is not None:
        ways.append("running it on the CPU (GPU layers 0)")
    if ways:
        return f"{verdict.numbers}: {' or '.join(ways)} would fit"
    return f"{verdict.numbers}: {_smaller(plans, verdict.free)}"


def _smaller(plans: Sequence[ModelPlan], free: int) -> str:
    """Advice when even a short context does not fit."""
    alone = plans[:1]
    if len(plans) > 1 and _verdict(alone, LEAST_CONTEXT, Room(free, free)).level != "refuse":
        return f"{plans[0].info.name} alone would fit, without a drafter model"
    info = plans[0].info
    as_q4 = int(info.parameters * 4.85 / 8)  # bits per weight of Q4_K_M, output layer included
    if as_q4 < 0.8 * info.bytes and as_q4 < 0.8 * free:
        return f"a Q4_K_M file of {info.name} (about {_size(as_q4)}) would fit"
    return "choose a smaller model, or one with fewer bits per weight"


def _size(count: int) -> str:
    return f"{count / _GB:.1f} GB"
