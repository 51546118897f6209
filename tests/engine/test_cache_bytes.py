"""What a load keeps of the text: the estimate against what llama.cpp says that it allocates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.files.gguf import inspect
from engine.files.gguf_caches import LayerShape, layer_caches
from engine.files.gguf_header import Value
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.log import NativeLog
from engine.llama.model import Model, ModelOptions
from engine.models.memory import MemoryEstimate, ModelPlan, estimate
from tests.mtp_gguf import write_mtp_gguf
from tests.odd_gguf import (
    LAYERS,
    write_hybrid,
    write_interval,
    write_recurrent,
    write_sliding,
)
from tests.tiny_gguf import write_tiny_gguf

CONTEXT = 4096
MIB = 1 << 20
_ALLOCATED = re.compile(r"(KV|RS) buffer size = +([\d.]+) MiB")
_ROUNDED = 0.005 * MIB
"""How far a line of the log can be off: two digits behind the point."""


def allocated(path: Path, log: NativeLog, leaves: int = 1) -> dict[str, list[float]]:
    """Bytes of the KV caches and of the recurrent states, as llama.cpp's log has them."""
    options = ContextOptions(CONTEXT, 16, 1, max_leaves=leaves)
    log.take()
    with Model(path, ModelOptions(), log) as model, Context(model, options, AbortFlag()):
        lines = [line.text for line in log.take()]
    found: dict[str, list[float]] = {"KV": [], "RS": []}
    for match in filter(None, map(_ALLOCATED.search, lines)):
        found[match[1]].append(float(match[2]) * MIB)
    return found


def check(path: Path, log: NativeLog, leaves: int = 1) -> MemoryEstimate:
    measured = allocated(path, log, leaves)
    ours = estimate(ModelPlan(inspect(path), swa_full=leaves > 1), CONTEXT)
    for mine, theirs in ((ours.kv, measured["KV"]), (ours.states, measured["RS"])):
        assert mine == pytest.approx(sum(theirs), abs=_ROUNDED * max(1, len(theirs)))
    assert ours.total == ours.weights + ours.kv + ours.states + ours.kept_state + ours.buffers
    return ours


@pytest.mark.parametrize(
    ("write", "has_kv", "has_states"),
    [
        (write_tiny_gguf, True, False),
        (write_sliding, True, False),
        (write_recurrent, False, True),
        (write_hybrid, True, True),
        (write_interval, True, True),
        (partial(write_interval, listed=True), True, True),
        (write_mtp_gguf, True, False),
    ],
    ids=["plain", "sliding", "recurrent", "hybrid", "interval", "listed", "mtp"],
)
def test_the_estimate_is_what_llama_cpp_allocates(
    tmp_path: Path,
    library: Library,
    write: Callable[[Path], Path],
    has_kv: bool,
    has_states: bool,
) -> None:
    ours = check(write(tmp_path / "model.gguf"), library.log)
    assert (ours.kv > 0, ours.states > 0) == (has_kv, has_states)


def test_a_tree_keeps_sliding_layers_whole(tmp_path: Path, library: Library) -> None:
    path = write_sliding(tmp_path / "model.gguf")
    assert check(path, library.log, leaves=4).kv > check(path, library.log).kv


@pytest.mark.model
def test_the_starter_needs_what_llama_cpp_allocates(starter_path: Path, library: Library) -> None:
    measured = sum(allocated(starter_path, library.log)["KV"])
    assert estimate(ModelPlan(inspect(starter_path)), CONTEXT).kv == pytest.approx(
        measured, rel=0.1
    )


def test_a_hybrid_whose_file_lists_heads_for_every_layer_counts_attention_alone(
    tmp_path: Path,
) -> None:
    info = inspect(write_interval(tmp_path / "model.gguf"))
    assert len(set(info.head_count_kv)) == 1
    each = info.head_count_kv[0] * (info.key_length + info.value_length)
    assert info.kv_values == (0, each) * (LAYERS // 2)
    everything = replace(info, kv_values=(each,) * LAYERS)
    half = estimate(ModelPlan(info), CONTEXT).kv
    assert estimate(ModelPlan(everything), CONTEXT).kv == 2 * half


class Keys:
    """Metadata under an architecture's prefix."""

    def __init__(self, **values: Value) -> None:
        self._values = {name.replace("__", "."): value for name, value in values.items()}

    def has(self, key: str) -> bool:
        return key in self._values

    def value(self, key: str) -> Value | None:
        return self._values.get(key)

    def integer(self, key: str) -> int:
        value = self._values.get(key, 0)
        assert isinstance(value, int)
        return value

    def per_layer(self, key: str, layers: int, default: int) -> tuple[int, ...]:
        value = self._values.get(key, default)
        if isinstance(value, int):
            return (value,) * layers
        assert isinstance(value, tuple)
        return tuple(int(one) for one in value)


def shape(architecture: str, kv_heads: tuple[int, ...], trunk: int = 0) -> LayerShape:
    layers = len(kv_heads)
    return LayerShape(architecture, trunk or layers, 5120, (24,) * layers, kv_heads, 256, 256)


def test_qwen_27b_attends_in_16_of_its_64_layers() -> None:
    """The shape of Qwen3.6-27B with an MTP layer: 48 states, which llama.cpp keeps in 32 bits."""
    keys = Keys(
        ssm__conv_kernel=4,
        ssm__inner_size=6144,
        ssm__state_size=128,
        ssm__group_count=16,
        full_attention_interval=4,
    )
    caches = layer_caches(shape("qwen35", (4,) * 65, trunk=64), keys)
    assert [layer for layer in range(64) if caches.kv[layer]] == list(range(3, 64, 4))
    assert caches.kv[64] == 4 * 512  # the MTP layer attends
    assert caches.states[64] == 0
    assert 4 * sum(caches.states) / MIB == pytest.approx(149.6, abs=0.1)
    assert caches.goes_back
    assert layer_caches(shape("qwen3next", (2,) * 8), Keys(ssm__conv_kernel=4)).kv == (
        *(0, 0, 0, 2 * 512) * 2,
    )


def test_kinds_of_hybrids() -> None:
    ssm = {"ssm__conv_kernel": 4, "ssm__inner_size": 64, "ssm__state_size": 8}
    state = 3 * 64 + 8 * 64
    both = layer_caches(shape("falcon-h1", (2, 2)), Keys(**ssm))
    assert (both.kv, both.states) == ((1024, 1024), (state, state))
    mixed = layer_caches(shape("jamba", (0, 2)), Keys(**ssm))
    assert (mixed.kv, mixed.states) == ((0, 1024), (state, 0))
    alone = layer_caches(shape("nemotron_h", (0, 2, 0)), Keys(**ssm, feed_forward_length=(0, 0, 9)))
    assert (alone.kv, alone.states) == ((0, 1024, 0), (state, 0, 0))
    rwkv = layer_caches(shape("rwkv7", (0, 0)), Keys(wkv__head_size=64))
    assert (rwkv.kv, rwkv.states) == ((0, 0), (5120 * 66,) * 2)


def test_sliding_layers_have_their_own_head_width_and_may_share() -> None:
    keys = Keys(
        attention__sliding_window=1024,
        attention__sliding_window_pattern=(True, True, False, True),
        attention__key_length_swa=128,
        attention__value_length_swa=128,
        attention__shared_kv_layers=1,
    )
    caches = layer_caches(shape("gemma4", (2,) * 4), keys)
    assert caches.kv == (2 * 256, 2 * 256, 2 * 512, 0)
    assert caches.sliding == (True, True, False, True)


def test_which_layers_slide_where_the_file_does_not_say() -> None:
    def sliding(architecture: str) -> list[int]:
        keys = Keys(attention__sliding_window=128)
        caches = layer_caches(shape(architecture, (2,) * 8), keys)
        return [layer for layer, slides in enumerate(caches.sliding) if slides]

    assert sliding("gpt-oss") == [0, 2, 4, 6]
    assert sliding("olmo2") == [0, 1, 2, 4, 5, 6]
    assert sliding("cohere2moe") == [1, 2, 3, 5, 6, 7]
    assert sliding("phi3") == []  # llama.cpp keeps everything for it
