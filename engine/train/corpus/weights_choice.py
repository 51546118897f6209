"""Which copy of the target's weights says most tokens a second on this machine, many at a time.

Kernels for quantised weights are made for one row; with 64 rows, the same weights in 16 bits can
be faster on a processor. What they say is the same up to rounding.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.files.disk import disk_room
from engine.files.gguf import inspect
from engine.llama.abort import AbortFlag
from engine.llama.derived import derived_path, requantized_bytes, requantized_copy
from engine.llama.library import Library, devices
from engine.llama.many import ManyContext, ManyOptions
from engine.llama.model import Model, ModelOptions
from engine.llama.native_context import PREFILL_CHUNK
from engine.models.memory import KV_BYTES, STATE_BYTES, free_ram
from engine.train.corpus.disk import bytes_per_token
from engine.train.corpus.settings import CollectSettings, read_layers

ORIGINAL = "the target's file"
_HALF = ("F16", "BF16", "F32")
_PASSES = 4
_LENGTH = 16
_FEW_SEQUENCES = 16
"""Rather fewer collectors than so few documents in each: then passes are narrow."""


def choose_weights(settings: CollectSettings, library: Library) -> dict[str, Any]:
    """{"fast_copy", "tokens_per_second", "sequences", "collectors"}.

    tokens_per_second: of one collector, by the name of the weights.
    """
    target = Path(settings.target)
    on_gpu = bool(devices()) and settings.gpu_layers != 0
    collectors, sequences = shares(settings, 1 if on_gpu else settings.collectors, free_ram())
    settings = replace(settings, sequences=sequences)
    speeds = {ORIGINAL: _tokens_per_second(target, settings, library, on_gpu)}
    copy = ""
    half = "BF16" if library.multiplies_bf16 else "F16"
    if not devices() and _may_copy(settings, half):
        made = requantized_copy(
            target, half, Path(settings.derived), library.log, lambda _fraction: None
        )
        speed = _tokens_per_second(made, settings, library, on_gpu)
        speeds[f"a copy as {half}"] = speed
        if speed > speeds[ORIGINAL]:
            copy = str(made)
    return {
        "fast_copy": copy,
        "collectors": collectors,
        "tokens_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "sequences": sequences,
    }


def _may_copy(settings: CollectSettings, half: str) -> bool:
    """Whether a copy would differ, memory has room for it, and it leaves half of the free disk."""
    target, derived = Path(settings.target), Path(settings.derived)
    needed = requantized_bytes(target, half)
    if inspect(target).quant in _HALF or 1.1 * needed > free_ram() / 2:
        return False
    return derived_path(target, half, derived).is_file() or disk_room(derived) > 2 * needed


def shares(settings: CollectSettings, wanted: int, free: int) -> tuple[int, int]:
    """How many collectors, and how many sequences each, half of the `free` memory holds.

    A sequence takes its KV cache and its features; a collector the logits of a whole prompt, twice,
    since held-out documents may have a context of their own.
    """
    info = inspect(Path(settings.target))
    kept = KV_BYTES * sum(info.kv_values[: info.trunk_layers])
    token = kept + bytes_per_token(info.embedding_length)
    each = token * settings.sequence_length + STATE_BYTES * sum(info.state_values)
    fixed = 8 * PREFILL_CHUNK * info.vocabulary_size
    for collectors in range(wanted, 0, -1):
        sequences = (free // 2 // collectors - fixed) // each
        if sequences >= min(_FEW_SEQUENCES, settings.sequences):
            return collectors, min(settings.sequences, sequences)
    return 1, max(4, (free // 2 - fixed) // each)


def _tokens_per_second(
    path: Path, settings: CollectSettings, library: Library, on_gpu: bool
) -> float:
    """Prompts are not counted. On a processor in its own time, so that other programs do not
    decide; while a GPU works, the processor waits."""
    clock = time.perf_counter if on_gpu else time.process_time
    with Model(path, ModelOptions(settings.gpu_layers, repack=False), library.log) as model:
        options = ManyOptions(
            settings.sequences, _LENGTH, settings.threads, read_layers(model.layers)
        )
        with ManyContext(model, options, AbortFlag()) as context:
            places = range(settings.sequences)
            for place in places:
                context.start(place, [place % model.vocab.size] * 2)
            seconds = []
            for _ in range(_PASSES):
                before = clock()
                context.step(places, [1] * len(places))
                seconds.append(clock() - before)
            workers = 1 if on_gpu else settings.threads
            return workers * len(places) / max(min(seconds), 1e-6)
