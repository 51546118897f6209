"""Will it fit? Memory of a load, estimated from GGUF headers before llama.cpp allocates anything.

Upper bounds on purpose: f16 KV for the whole context, a compute buffer as llama.cpp reserves it for
a full batch. KV caches and recurrent states are counted as llama.cpp allocates them. Nothing is
measured here; free device memory is passed in by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from engine.files.gguf import GgufInfo

UBATCH = 512
OUTPUT_ROWS = 64
KV_BYTES = 2
STATE_BYTES = 4
ROLLBACK = 16
"""Earlier recurrent states that a context keeps, to go back to."""

CONTEXT_STEP = 256
"""llama.cpp rounds the cells of a KV cache up to a multiple of this."""

DEFAULT_CONTEXT = 8192
LEAST_CONTEXT = 512
WARN_SHARE = 0.85
_GB = 1e9
_CGROUP = Path("/sys/fs/cgroup")

Level = Literal["ok", "warn", "refuse"]


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes one model takes. host + device = weights + kv + states + buffers."""

    name: str
    context_length: int
    weights: int
    kv: int
    states: int
    buffers: int
    host: int
    device: int

    @property
    def total(self) -> int:
        return self.kept + self.buffers

    @property
    def kept(self) -> int:
        """What is there between passes."""
        return self.weights + self.kv + self.states

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"total": self.total}


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """One model of a load. gpu_layers: -1 all, 0 none. output_rows: widest verified pass.

    ubatch: rows of one compute pass. swa_full: sliding-window layers keep the whole context.
    flash_attention: without it, a pass holds every head's scores over the whole context.
    nextn: the context of the layers that predict tokens after the next one, without weights.
    """

    info: GgufInfo
    gpu_layers: int = 0
    output_rows: int = OUTPUT_ROWS
    ubatch: int = UBATCH
    swa_full: bool = True
    flash_attention: bool = True
    nextn: bool = False


@dataclass(frozen=True, slots=True)
class FitReport:
    """level "warn": it fits but leaves little; "refuse": it does not fit. Sizes in bytes."""

    level: Level
    message: str
    needed: int
    free: int
    largest_context: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def default_context(info: GgufInfo) -> int:
    """Tokens of a load that asks for no length: the model's own, within reason."""
    return min(info.context_length or DEFAULT_CONTEXT, DEFAULT_CONTEXT)


def estimate(plan: ModelPlan, context_length: int) -> MemoryEstimate:
    """context_length: tokens, 0 for the model's own."""
    info = plan.info
    context = _round_up(context_length or info.context_length)
    weights = 0 if plan.nextn else info.bytes
    kv, states = _kv_bytes(plan, context), _state_bytes(plan)
    buffers = _buffer_bytes(plan, context)
    share = _device_share(info, plan.gpu_layers)
    device = int((weights + kv + states) * share) + (buffers if share else 0)
    host = weights + kv + states + buffers - device
    return MemoryEstimate(info.name, context, weights, kv, states, buffers, host, device)


def check_fit(
    plans: Sequence[ModelPlan], context_length: int, free_ram: int, device_memory: int = 0
) -> FitReport:
    """Compare the models of one load with what is free, and say what would fit.

    context_length: tokens, the same for all (0: the target's own, plans[0]). free_ram,
    device_memory: bytes; add what a load that is about to be replaced will give back.
    """
    context = context_length or plans[0].info.context_length
    verdict = _verdict(plans, context, free_ram, device_memory)
    fitting = context
    if verdict.level == "refuse":
        fitting = _largest_context(plans, context, free_ram, device_memory)
    return FitReport(
        verdict.level,
        _message(plans, verdict, context, fitting),
        verdict.needed,
        verdict.free,
        fitting,
    )


def free_ram() -> int:
    """Bytes that can be allocated without swapping, within the container's limit if any."""
    available = int(psutil.virtual_memory().available)
    limit = _cgroup_room()
    return available if limit is None else min(available, limit)


def _kv_bytes(plan: ModelPlan, context: int) -> int:
    info = plan.info
    window = _round_up(min(context, info.sliding_window + plan.ubatch))
    short = context if plan.swa_full else window
    layers = _layers(plan)
    cells = (short if is_sliding else context for is_sliding in info.sliding[layers])
    return KV_BYTES * sum(
        count * each for count, each in zip(cells, info.kv_values[layers], strict=True)
    )


def _state_bytes(plan: ModelPlan) -> int:
    info = plan.info
    copies = 1 + ROLLBACK if info.keeps_states else 1
    return STATE_BYTES * copies * sum(info.state_values[_layers(plan)])


def _layers(plan: ModelPlan) -> slice:
    trunk = plan.info.trunk_layers
    return slice(trunk, None) if plan.nextn else slice(0, trunk)


def _buffer_bytes(plan: ModelPlan, context: int) -> int:
    """llama.cpp reserves for a batch whose rows all give logits, and reuses that for the layers."""
    info = plan.info
    layer = 4 * info.embedding_length + 2 * info.feed_forward_length
    if not plan.flash_attention:
        layer += max(info.head_count, default=0) * context
    row = max(info.vocabulary_size + info.embedding_length, layer)
    mask = context * plan.ubatch * 4
    return plan.ubatch * row * 4 + mask + plan.output_rows * info.vocabulary_size * 4


def _device_share(info: GgufInfo, gpu_layers: int) -> float:
    layers = info.block_count + 1  # the output layer counts as one
    if gpu_layers < 0:
        return 1.0
    return min(gpu_layers, layers) / layers


@dataclass(frozen=True, slots=True)
class _Verdict:
    """needed, free: bytes of the memory that is the tighter one."""

    level: Level
    needed: int
    free: int


def _verdict(plans: Sequence[ModelPlan], context: int, free: int, device: int) -> _Verdict:
    estimates = [estimate(plan, context) for plan in plans]
    host = (sum(one.host for one in estimates), free)
    gpu = (sum(one.device for one in estimates), device)
    needed, available = max((host, gpu), key=lambda pair: pair[0] / max(pair[1], 1))
    if needed > available:
        return _Verdict("refuse", needed, available)
    level: Level = "warn" if needed > WARN_SHARE * available else "ok"
    return _Verdict(level, needed, available)


def _largest_context(plans: Sequence[ModelPlan], context: int, free: int, device: int) -> int:
    """Largest fitting multiple of LEAST_CONTEXT below the wish, 0 if none fits."""
    low, high = 0, context // LEAST_CONTEXT
    while low < high:
        middle = (low + high + 1) // 2
        if _verdict(plans, middle * LEAST_CONTEXT, free, device).level == "refuse":
            high = middle - 1
        else:
            low = middle
    return low * LEAST_CONTEXT


def _message(plans: Sequence[ModelPlan], verdict: _Verdict, context: int, fitting: int) -> str:
    level, needed, free = verdict.level, verdict.needed, verdict.free
    numbers = f"needs {_size(needed)} of {_size(free)} free"
    if level == "ok":
        return numbers
    if level == "warn":
        return f"{numbers}: little is left for other programs"
    numbers = f"needs {_size(needed)}, {_size(free)} are free"
    if fitting:
        return f"{numbers}: a context of {fitting:,} instead of {context:,} would fit"
    return f"{numbers}: {_smaller(plans, free)}"


def _smaller(plans: Sequence[ModelPlan], free: int) -> str:
    """Advice when even a short context does not fit."""
    if len(plans) > 1 and _verdict(plans[:1], LEAST_CONTEXT, free, free).level != "refuse":
        return f"{plans[0].info.name} alone would fit, without a drafter model"
    info = plans[0].info
    as_q4 = int(info.parameters * 4.85 / 8)  # bits per weight of Q4_K_M, output layer included
    if as_q4 < 0.8 * info.bytes and as_q4 < 0.8 * free:
        return f"a Q4_K_M file of {info.name} (about {_size(as_q4)}) would fit"
    return "choose a smaller model, or one with fewer bits per weight"


def _size(count: int) -> str:
    return f"{count / _GB:.1f} GB"


def _round_up(tokens: int) -> int:
    return -(-max(tokens, 1) // CONTEXT_STEP) * CONTEXT_STEP


def _cgroup_room() -> int | None:
    """What a Linux container may still allocate; reclaimable file cache counts as free."""
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        current = int((_CGROUP / "memory.current").read_text())
        statistics = (_CGROUP / "memory.stat").read_text()
    except (OSError, ValueError):
        return None  # not Linux, or no limit of this kind
    if not limit.isdigit():
        return None
    lines = (line.split() for line in statistics.splitlines())
    cache = sum(int(value) for name, value in lines if name == "inactive_file")
    return max(int(limit) - current + cache, 0)
