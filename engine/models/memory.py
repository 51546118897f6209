"""Memory of a load, estimated from GGUF headers before llama.cpp allocates anything.

Upper bounds on purpose: f16 KV for the whole context, a compute buffer as llama.cpp reserves it for
a full batch. KV caches and recurrent states are counted as llama.cpp allocates them. Nothing is
measured here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
_CGROUP = Path("/sys/fs/cgroup")


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
    states += _kept_bytes(plan)
    host = weights + kv + states + buffers - device
    return MemoryEstimate(info.name, context, weights, kv, states, buffers, host, device)


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


def _kept_bytes(plan: ModelPlan) -> int:
    """Of the state that is kept before a prompt's end, see engine.llama.kept_state."""
    return 0 if plan.nextn else STATE_BYTES * sum(plan.info.state_values[_layers(plan)])


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
