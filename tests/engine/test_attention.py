"""Long texts without computing them, and which attention is faster after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.data.device import Room
from engine.data.folders import DataFolder
from engine.data.request import LoadRequest
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.llama.repeat import can_repeat, repeat_text
from engine.measure.attention import compared
from engine.serving.plan import Loader, LoadPlan
from engine.serving.tuning import Setup, Tuning
from tests.tiny_gguf import write_tiny_gguf

OPTIONS = ContextOptions(128, 8, threads=1, max_leaves=2)
TEXT = list(range(40, 56))


@pytest.fixture
def one_layer(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf", layers=1)


@pytest.mark.parametrize("fused", [True, False])
def test_a_repeated_text_is_what_feeding_it_again_would_leave(
    one_layer: Path, library: Library, fused: bool
) -> None:
    """With one layer the cache holds tokens and positions only, so copies lack nothing."""
    options = replace(OPTIONS, flash_attention=fused)
    with Model(one_layer, ModelOptions(), library.log) as model:
        with Context(model, options, AbortFlag()) as repeated:
            repeated.feed(TEXT)
            assert can_repeat(repeated)
            repeat_text(repeated, 3)
            assert repeated.tokens == 4 * TEXT
            found = repeated.extend([7, 8]).copy()
            repeated.truncate(4 * len(TEXT))
            again = repeated.extend([7, 8]).copy()
        with Context(model, options, AbortFlag()) as fed:
            fed.feed(4 * TEXT)
            expected = fed.extend([7, 8]).copy()
            fed.truncate(len(TEXT))
            shorter = fed.extend([7, 8]).copy()
    assert np.abs(found - expected).max() < 0.02
    assert np.abs(again - found).max() < 1e-4
    assert np.abs(shorter - expected).max() > 0.05, "the copies are seen"


def test_a_text_that_does_not_fit_is_not_repeated(one_layer: Path, library: Library) -> None:
    with (
        Model(one_layer, ModelOptions(), library.log) as model,
        Context(model, OPTIONS, AbortFlag()) as context,
    ):
        context.feed(TEXT)
        with pytest.raises(ValueError, match="do not fit"):
            repeat_text(context, 8)
        assert context.tokens == TEXT


def test_a_context_of_one_sequence_cannot_repeat(one_layer: Path, library: Library) -> None:
    with (
        Model(one_layer, ModelOptions(), library.log) as model,
        Context(model, ContextOptions(128, 8, threads=1), AbortFlag()) as context,
    ):
        assert not can_repeat(context)


def scripted(*seconds: float) -> Callable[[], float]:
    rest = iter(seconds)
    return lambda: next(rest)


def test_the_first_turn_is_not_counted_and_a_slow_one_is_nothing() -> None:
    fused, plain = scripted(9.0, 2.0, 2.0, 8.0), scripted(0.1, 1.0, 5.0, 1.0)
    assert compared([fused, plain], 3) == [2.0, 1.0]


def load_plan(
    target: Path, folder: DataFolder, library: Library, context_length: int = 4096
) -> LoadPlan:
    return Loader(library, folder).plan(
        LoadRequest(str(target), context_length=context_length), Room(0)
    )


def test_attention_is_measured_once_and_only_where_it_fits(
    one_layer: Path, library: Library, tmp_path: Path
) -> None:
    folder = DataFolder(tmp_path / "data")
    tuning = Tuning(folder, library.version, AbortFlag())
    plan = load_plan(one_layer, folder, library, context_length=128)
    told: list[str] = []

    def report(label: str, _fraction: float) -> None:
        told.append(label)

    with Model(one_layer, ModelOptions(), library.log) as model:
        first = tuning.with_attention(plan, Setup(1), model, report)
        assert told == ["measuring this machine"]
        assert tuning.with_attention(plan, Setup(1), model, report) == first
        assert len(told) == 1, "kept"
        huge = replace(plan, context_length=2**40)
        assert tuning.with_attention(huge, Setup(1), model, report) == Setup(1)
        assert len(told) == 1
