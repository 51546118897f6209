"""What is said about a load before any weights are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.data.device import Room
from engine.data.errors import IncompatiblePairError, UnknownModelError
from engine.data.folders import DataFolder
from engine.data.request import LoadRequest
from engine.drafters.features.eagle_graph import EagleGraph, TargetEnds
from engine.drafters.kinds.eagle import eagle_info
from engine.files.gguf import inspect
from engine.heads.eagle_file import read_eagle
from engine.heads.pairing import target_ends
from engine.llama.library import Library
from engine.models.memory import ModelPlan, estimate
from engine.serving.plan import Loader
from tests.eagle_files import EagleSizes, write_eagle
from tests.engine.conftest import THREADS
from tests.tiny_gguf import write_tiny_gguf


def test_a_context_beyond_the_trained_one_is_told(library: Library, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", context=256)
    loader = Loader(library, DataFolder(tmp_path / "data"))
    assert loader.plan(LoadRequest(str(path), context_length=256), Room(0)).notices == ()
    (notice,) = loader.plan(LoadRequest(str(path), context_length=257), Room(0)).notices
    assert "257" in notice and "256" in notice


def test_eagle_layers_are_checked_and_counted_before_anything_is_read(
    library: Library, tmp_path: Path
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    info = inspect(path)
    loader = Loader(library, DataFolder(tmp_path / "data"))
    sizes = EagleSizes(info.embedding_length, info.vocabulary_size)
    layer = write_eagle(tmp_path / "layer", sizes)
    plan = loader.plan(LoadRequest(str(path), f"eagle:tree=8:{layer}", context_length=256), Room(0))
    assert layer / "model.safetensors" in [file.path for file in plan.files]
    with pytest.raises(IncompatiblePairError, match="hidden size of 32"):
        other = write_eagle(tmp_path / "other", EagleSizes(32, info.vocabulary_size))
        loader.plan(LoadRequest(str(path), f"eagle:{other}"), Room(0))
    with pytest.raises(UnknownModelError, match="no eagle heads"):
        loader.plan(LoadRequest(str(path), "eagle"), Room(0))


def test_memory_of_an_eagle_layer(library: Library, tmp_path: Path) -> None:
    """Weights as Q8_0, the target's output matrix, its own KV cache, and a state a token."""
    path = write_tiny_gguf(tmp_path / "tiny.gguf", vocabulary_size=4096)
    info = inspect(path)
    layer = read_eagle(write_eagle(tmp_path / "layer", EagleSizes(64, 4096, feed_forward=1024)))
    memory = estimate(ModelPlan(eagle_info(layer, path, info)), 2048)
    assert memory.kv == 2048 * (2 * 2 * 16 * 2 + 4 * 64)
    graph = EagleGraph(layer, TargetEnds(*target_ends(path)), 2048, THREADS)
    states = 2048 * 4 * 64
    assert memory.weights + memory.kv - states == pytest.approx(graph.bytes, rel=0.25)
    assert graph.bytes > 4096 * 64 * 4
    graph.close()
