"""Small tensor graphs against numpy, and every way to build one wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from engine.drafters.features.medusa_graph import MedusaGraph
from engine.files.tensor_data import TensorData
from engine.llama.ggml import Arena, CpuBackend, quantize
from engine.llama.library import Library
from tests.engine.conftest import THREADS
from tests.engine.head_files import medusa_arrays, medusa_heads, medusa_reference, tensor

HIDDEN, ROWS = 64, 96


@pytest.fixture
def backend(library: Library) -> Iterator[CpuBackend]:
    backend = CpuBackend(THREADS)
    yield backend
    backend.close()
    backend.close()


@pytest.fixture
def arena(backend: CpuBackend) -> Iterator[Arena]:
    arena = Arena(backend, room=32)
    yield arena
    arena.close()
    arena.close()


# Errors relative to the spread of the logits; what block formats of 8 and 4 bits round away.
@pytest.mark.parametrize(
    ("kind", "error"), [("F32", 1e-5), ("F16", 2e-3), ("Q8_0", 0.04), ("Q4_0", 0.6)]
)
def test_heads_agree_with_numpy(library: Library, kind: str, error: float) -> None:
    arrays = medusa_arrays(HIDDEN, ROWS)
    graph = MedusaGraph(medusa_heads(arrays), THREADS, kind)
    random = np.random.default_rng(3)
    for _ in range(3):  # one graph, many runs
        state = random.standard_normal(HIDDEN).astype(np.float32)
        graph.run(state)
        for head in range(graph.count):
            expected = medusa_reference(arrays, head, state)
            worst = np.abs(graph.logits(head) - expected).max()
            assert worst <= error * expected.std()
    graph.close()


def test_bfloat16_heads_and_rows_that_are_no_whole_blocks(library: Library) -> None:
    arrays = medusa_arrays(20, 11)
    graph = MedusaGraph(medusa_heads(arrays), THREADS)
    state = np.random.default_rng(1).standard_normal(20).astype(np.float32)
    graph.run(state)
    np.testing.assert_allclose(graph.logits(1), medusa_reference(arrays, 1, state), atol=0.01)
    graph.close()
    graph.close()


def test_operations_agree_with_numpy(arena: Arena) -> None:
    random = np.random.default_rng(0)
    table = random.standard_normal((7, 32)).astype(np.float32)
    scale = random.standard_normal(32).astype(np.float32)
    weights = arena.tensor("F32", (7, 32))
    factors = arena.tensor("F32", (32,))
    indices = arena.tensor("I32", (3,))
    rows = arena.get_rows(weights, indices)
    normed = arena.multiply(arena.rms_norm(rows, 1e-5), factors)
    graph = arena.graph([rows, normed])
    arena.allocate()
    arena.write(weights, table)
    arena.write(factors, scale)
    for chosen in ([0, 6, 2], [1, 1, 5]):
        arena.write(indices, np.array(chosen, np.int32))
        graph.run()
        expected = table[chosen]
        assert (arena.read(rows) == expected).all()
        expected = expected / np.sqrt((expected**2).mean(axis=1, keepdims=True) + 1e-5) * scale
        np.testing.assert_allclose(arena.read(normed), expected, rtol=1e-5)


def test_long_weights_are_converted_in_parts(arena: Arena) -> None:
    values = np.random.default_rng(0).standard_normal((5000, 32)).astype(np.float32)
    weights, state = arena.tensor("Q8_0", (5000, 32)), arena.tensor("F32", (1, 32))
    product = arena.multiply_matrix(weights, state)
    graph = arena.graph([product])
    arena.allocate()
    arena.write_data(weights, tensor(values))
    arena.write(state, np.ones((1, 32), np.float32))
    graph.run()
    np.testing.assert_allclose(arena.read(product)[0], values.sum(axis=1), atol=0.2)


def test_weights_quantised_before_are_taken_as_they_are(arena: Arena) -> None:
    values = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    stored = TensorData("Q4_0", (4, 32), quantize(values, "Q4_0"))
    weights, state = arena.tensor("Q4_0", (4, 32)), arena.tensor("F32", (2, 32))
    product = arena.multiply_matrix(weights, state)
    graph = arena.graph([product])
    arena.allocate()
    arena.write_data(weights, stored)
    arena.write(state, np.eye(2, 32, dtype=np.float32))
    graph.run()
    assert np.abs(arena.read(product) - values[:, :2].T).max() < 0.5
    with pytest.raises(ValueError, match="plain number format"):
        stored.floats()


@pytest.mark.parametrize(
    "build",
    [
        lambda a: a.tensor("Q8_0", (4, 20)),
        lambda a: a.tensor("F32", (0, 3)),
        lambda a: a.tensor("F32", (1, 1, 1, 1, 2)),
        lambda a: a.tensor("Q9", (4, 32)),
        lambda a: a.multiply_matrix(a.tensor("F32", (3, 4)), a.tensor("F32", (1, 5))),
        lambda a: a.multiply_matrix(a.tensor("F32", (3, 4)), a.tensor("F16", (1, 4))),
        lambda a: a.add(a.tensor("F32", (3, 4)), a.tensor("F32", (2, 4))),
        lambda a: a.multiply(a.tensor("F32", (4,)), a.tensor("F32", (3, 4))),
        lambda a: a.silu(a.tensor("F16", (3,))),
        lambda a: a.get_rows(a.tensor("F32", (3, 4)), a.tensor("F32", (1,))),
        lambda a: [a.tensor("F32", (1,)) for _ in range(33)],
    ],
)
def test_wrong_shapes_are_errors_before_ggml_sees_them(
    arena: Arena, build: Callable[[Arena], object]
) -> None:
    with pytest.raises(ValueError, match=r".+"):
        build(arena)


def test_an_arena_has_an_order(arena: Arena) -> None:
    one = arena.tensor("F32", (2, 3))
    with pytest.raises(ValueError, match="no memory yet"):
        arena.read(one)
    with pytest.raises(ValueError, match="no memory yet"):
        arena.write(one, np.ones((2, 3), np.float32))
    arena.allocate()
    for wrong in (np.ones((2, 3)), np.ones((3, 2), np.float32)):
        with pytest.raises(ValueError, match="for F32"):
            arena.write(one, wrong)
    for late in (arena.allocate, lambda: arena.tensor("F32", (1,)), lambda: arena.graph([one])):
        with pytest.raises(ValueError, match="already allocated"):
            late()
    assert arena.bytes >= 24
    arena.close()
    with pytest.raises(ValueError, match="closed"):
        arena.tensor("F32", (1,))
