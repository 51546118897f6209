"""What is said about a load before any weights are read."""

from __future__ import annotations

from pathlib import Path

from engine.folders import DataFolder
from engine.llama.library import Library
from engine.loading import Loader
from engine.request import LoadRequest
from tests.tiny_gguf import write_tiny_gguf


def test_a_context_beyond_the_trained_one_is_told(library: Library, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", context=256)
    loader = Loader(library, DataFolder(tmp_path / "data"))
    assert loader.plan(LoadRequest(str(path), context_length=256), 0).notices == ()
    (notice,) = loader.plan(LoadRequest(str(path), context_length=257), 0).notices
    assert "257" in notice and "256" in notice
