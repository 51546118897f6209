"""Copies of a model without some of its layers, or in another format."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.data.errors import BadOptionError, RunError
from engine.files.gguf import inspect
from engine.llama.derived import derived_path, requantized_copy, skipped_copy
from engine.llama.library import Library
from engine.skip.choice import default_skip
from tests.tiny_gguf import write_tiny_gguf


@pytest.mark.parametrize("layers", [1, 2, 4, 7, 16, 28, 30, 32, 80])
def test_default_skip_spares_both_ends(layers: int) -> None:
    skip = default_skip(layers)
    assert len(skip) == max(1, round(layers / 15))
    assert all(0 <= layer < layers for layer in skip)
    if layers >= 7:
        assert 0 not in skip and layers - 1 not in skip


def test_a_copy_without_layers_is_made_once(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    folder = tmp_path / "derived"
    reported: list[float] = []
    made = skipped_copy(source, 4, (2, 1), folder, library.log, reported.append)
    assert inspect(made).block_count == 2
    assert [path.name for path in folder.iterdir()] == [made.name]
    before = made.stat().st_mtime_ns
    assert skipped_copy(source, 4, (1, 2), folder, library.log, reported.append) == made
    assert made.stat().st_mtime_ns == before
    assert all(0.0 <= fraction <= 1.0 for fraction in reported)


def test_a_replaced_source_gets_a_new_copy(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    first = derived_path(source, "skip-1", tmp_path)
    write_tiny_gguf(source, layers=5)
    assert derived_path(source, "skip-1", tmp_path) != first


@pytest.mark.parametrize("skip", [(), (4,), (-1,), (0, 1, 2, 3)])
def test_impossible_layers_are_refused(
    skip: tuple[int, ...], tmp_path: Path, library: Library
) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    with pytest.raises(BadOptionError, match="0 to 3"):
        skipped_copy(source, 4, skip, tmp_path / "derived", library.log, lambda _: None)
    assert not (tmp_path / "derived").exists()


def test_a_failed_copy_leaves_nothing(tmp_path: Path, library: Library) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()[:20_000])
    folder = tmp_path / "derived"
    with pytest.raises(RunError):
        skipped_copy(source, 2, (1,), folder, library.log, lambda _: None)
    assert list(folder.iterdir()) == []


def test_a_copy_that_cannot_be_stored_is_a_run_error(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "derived").write_text("a file where the folder should be")
    with pytest.raises(RunError, match="derived"):
        skipped_copy(source, 2, (1,), tmp_path / "derived", library.log, lambda _: None)


def test_an_unknown_format_is_refused(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(BadOptionError, match="Q9"):
        requantized_copy(source, "Q9", tmp_path / "derived", library.log, lambda _: None)
    assert list((tmp_path / "derived").iterdir()) == []
