"""Memory estimates against what llama.cpp reports for the same shapes, and the advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.data.device import Device, Room, used_devices
from engine.files.gguf import GgufInfo, inspect
from engine.models.fit import check_fit
from engine.models.memory import ModelPlan, estimate, free_ram
from tests.tiny_gguf import write_tiny_gguf

MIB = 1 << 20


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> GgufInfo:
    return inspect(write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture(scope="module")
def qwen(tiny: GgufInfo) -> GgufInfo:
    """The shape of Qwen2.5-Coder-0.5B Q4_K_M."""
    return replace(
        tiny,
        name="Qwen",
        bytes=491_400_064,
        parameters=630_167_424,
        context_length=32_768,
        block_count=24,
        full_layers=24,
        embedding_length=896,
        feed_forward_length=4864,
        head_count=(14,) * 24,
        head_count_kv=(2,) * 24,
        key_length=64,
        value_length=64,
        vocabulary_size=151_936,
        kv_values=(2 * (64 + 64),) * 24,
        sliding=(False,) * 24,
        state_values=(0,) * 24,
    )


@pytest.fixture(scope="module")
def gemma(tiny: GgufInfo) -> GgufInfo:
    """The shape of gemma-3-270m: 18 layers, 3 of them see the whole context."""
    return replace(
        tiny,
        block_count=18,
        full_layers=3,
        head_count_kv=(1,) * 18,
        key_length=256,
        value_length=256,
        sliding_window=512,
        kv_values=(256 + 256,) * 18,
        sliding=tuple(layer % 6 != 5 for layer in range(18)),
        state_values=(0,) * 18,
    )


def test_the_kv_cache_is_what_llama_cpp_allocates(qwen: GgufInfo) -> None:
    assert estimate(ModelPlan(qwen), 4096).kv == 48 * MIB


def test_the_compute_buffer_is_an_upper_bound_but_not_a_wild_one(qwen: GgufInfo) -> None:
    measured = 302 * MIB  # llama.cpp, context 4096, batches of 512
    assert measured <= estimate(ModelPlan(qwen), 4096).buffers <= 1.3 * measured


def test_sliding_windows_need_less_unless_kept_whole(gemma: GgufInfo) -> None:
    assert estimate(ModelPlan(gemma), 8192).kv == 144 * MIB
    windowed = estimate(ModelPlan(gemma, swa_full=False), 8192).kv
    assert windowed == 24 * MIB + 15 * 1024 * 1024  # 15 layers of 1,024 cells
    assert estimate(ModelPlan(gemma, swa_full=False), 512).kv == estimate(ModelPlan(gemma), 512).kv


def test_uneven_layers_are_summed(tiny: GgufInfo) -> None:
    uneven = replace(tiny, kv_values=(1 * (16 + 16), 3 * (16 + 16)))
    assert estimate(ModelPlan(uneven), 256).kv == (1 + 3) * (16 + 16) * 2 * 256


def test_without_flash_attention_scores_take_memory(qwen: GgufInfo) -> None:
    with_scores = estimate(ModelPlan(qwen, flash_attention=False), 32_768)
    assert with_scores.buffers > estimate(ModelPlan(qwen), 32_768).buffers + 500 * MIB


def test_layers_on_the_device_are_not_in_ram(qwen: GgufInfo) -> None:
    on_cpu, on_gpu = estimate(ModelPlan(qwen), 4096), estimate(ModelPlan(qwen, -1), 4096)
    assert (on_cpu.device, on_cpu.host) == (0, on_cpu.total)
    assert (on_gpu.device, on_gpu.host) == (on_gpu.total, 0)
    half = estimate(ModelPlan(qwen, 12), 4096)
    assert half.host + half.device == half.total
    assert 0 < half.host < half.device


def test_context_zero_is_the_models_own(qwen: GgufInfo) -> None:
    assert estimate(ModelPlan(qwen), 0).context_length == 32_768


def test_enough_memory_is_ok_and_little_is_a_warning(qwen: GgufInfo) -> None:
    needed = estimate(ModelPlan(qwen), 4096).total
    assert check_fit([ModelPlan(qwen)], 4096, Room(needed * 2)).level == "ok"
    report = check_fit([ModelPlan(qwen)], 4096, Room(int(needed * 1.05)))
    assert report.level == "warn"
    assert "little is left" in report.message


def test_a_refusal_names_the_context_that_fits(qwen: GgufInfo) -> None:
    free = estimate(ModelPlan(qwen), 8192).total
    report = check_fit([ModelPlan(qwen)], 32_768, Room(free))
    assert (report.level, report.largest_context) == ("refuse", 8192)
    assert report.message == (
        "needs 1.3 GB of RAM, 1.0 GB are free: a context of 8,192 instead of 32,768 would fit"
    )


def test_a_refusal_proposes_to_leave_the_drafter(qwen: GgufInfo) -> None:
    alone = estimate(ModelPlan(qwen), 512).total
    report = check_fit([ModelPlan(qwen), ModelPlan(qwen)], 4096, Room(int(1.1 * alone)))
    assert report.message.endswith("Qwen alone would fit, without a drafter model")


def test_a_refusal_proposes_another_quantisation(qwen: GgufInfo) -> None:
    large = replace(qwen, parameters=7_600_000_000, bytes=15_200_000_000)
    report = check_fit([ModelPlan(large)], 4096, Room(8_000_000_000))
    assert "a Q4_K_M file of Qwen (about 4.6 GB) would fit" in report.message
    tiny_room = check_fit([ModelPlan(qwen)], 4096, Room(100_000_000))
    assert tiny_room.message.endswith("choose a smaller model, or one with fewer bits per weight")
    assert tiny_room.largest_context == 0


def test_the_tighter_memory_decides(qwen: GgufInfo) -> None:
    report = check_fit([ModelPlan(qwen, -1)], 4096, Room(10**11, 500_000_000))
    assert (report.level, report.free) == ("refuse", 500_000_000)
    assert report.to_json()["level"] == "refuse"


def test_a_card_that_is_full_proposes_fewer_layers(qwen: GgufInfo) -> None:
    on_card = estimate(ModelPlan(qwen, -1), 4096)
    report = check_fit([ModelPlan(qwen, -1)], 4096, Room(10**11, int(0.9 * on_card.device)))
    assert report.level == "refuse" and report.gpu_layers is not None
    layers = report.gpu_layers
    assert 0 < layers < qwen.block_count
    fits = estimate(ModelPlan(qwen, layers), 4096).device
    more = estimate(ModelPlan(qwen, layers + 1), 4096).device
    assert fits <= report.free < more
    assert report.message.startswith("needs 0.9 GB on the graphics card, 0.8 GB are free: ")
    assert f"{layers} of its 24 layers there (GPU layers) would fit" in report.message
    nothing = check_fit([ModelPlan(qwen, -1)], 4096, Room(10**11, 1_000_000))
    assert nothing.message.endswith("running it on the CPU (GPU layers 0) would fit")


def test_a_card_gets_back_what_the_present_load_has_of_it(qwen: GgufInfo) -> None:
    loaded = estimate(ModelPlan(qwen, -1), 4096)
    free = Room(10**11, loaded.device // 2)
    assert check_fit([ModelPlan(qwen, -1)], 4096, free).level == "refuse"
    assert check_fit([ModelPlan(qwen, -1)], 4096, free + Room(0, loaded.device)).level == "ok"


def test_an_integrated_card_counts_only_where_there_is_no_other() -> None:
    card, chip = Device("Vulkan0", "a card", 8, 8), Device("Vulkan1", "a chip", 16, 16)
    assert used_devices([(chip, True), (card, False)]) == (card,)
    assert used_devices([(chip, True)]) == (chip,)
    assert used_devices([]) == ()


def test_free_ram_is_positive() -> None:
    assert free_ram() > 0


def test_a_tiny_file_is_counted_exactly(tiny: GgufInfo) -> None:
    assert estimate(ModelPlan(tiny), 256).weights == Path(tiny.path).stat().st_size
