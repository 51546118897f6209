"""Which copy of the target's weights says most tokens a second on this machine, many at a time.

Kernels for quantised weights are made for one row; with 64 rows, the same weights in 16 bits can
be faster on a processor. What they say is the same up to rounding.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.derived import requantized_copy
from engine.llama.abort import AbortFlag
from engine.llama.library import Library, devices
from engine.llama.many import ManyContext, ManyOptions
from engine.llama.model import Model, ModelOptions
from engine.models.gguf import inspect
from engine.models.memory import free_ram
from engine.train.settings import CollectSettings, read_layers
from engine.train.shards import bytes_per_token

_HALF = ("F16", "BF16", "F32")
_PASSES = 4
_LENGTH = 16


def choose_weights(settings: CollectSettings, library: Library) -> dict[str, Any]:
    """{"fast_copy", "tokens_per_second", "sequences", "on_gpu"}."""
    target = Path(settings.target)
    info = inspect(target)
    settings = replace(settings, sequences=_sequences(settings))
    speeds = {"the target's file": _tokens_per_second(target, settings, library)}
    copy = ""
    if not devices() and info.quant not in _HALF and 2.2 * info.parameters < free_ram() / 2:
        half = "BF16" if library.multiplies_bf16 else "F16"
        made = requantized_copy(
            target, half, Path(settings.derived), library.log, lambda _fraction: None
        )
        speeds[f"a copy as {half}"] = speed = _tokens_per_second(made, settings, library)
        if speed > speeds["the target's file"]:
            copy = str(made)
    return {
        "fast_copy": copy,
        "on_gpu": bool(devices()) and settings.gpu_layers != 0,
        "tokens_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "sequences": settings.sequences,
    }


def _sequences(settings: CollectSettings) -> int:
    """As many as a quarter of the free memory holds: their KV cache and their features."""
    info = inspect(Path(settings.target))
    cell = 4 * max(info.head_count_kv, default=0) * (info.key_length + info.value_length) // 2
    token = info.block_count * cell + bytes_per_token(info.embedding_length)
    room = free_ram() // 4 // (token * settings.sequence_length)
    return max(4, min(settings.sequences, room))


def _tokens_per_second(path: Path, settings: CollectSettings, library: Library) -> float:
    """In processor time, so that other programs do not decide; prompts are not counted."""
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
                before = time.process_time()
                context.step(places, [1] * len(places))
                seconds.append(time.process_time() - before)
            return settings.threads * len(places) / max(min(seconds), 1e-6)
