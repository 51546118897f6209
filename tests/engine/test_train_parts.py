"""Parts of the trainers: figures, vocabulary, loss, batches, dequantised weights."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.data.errors import IncompatiblePairError
from engine.files.gguf_data import MetadataValue, read_tensors, write_gguf
from engine.files.gguf_header import read_header
from engine.files.tensor_data import TensorData
from engine.llama.dequantize import dequantize
from engine.llama.ggml import quantize
from engine.train.corpus.shards import Document
from engine.train.draft_vocabulary import choose_tokens, positions_of
from engine.train.heldout import Drafts, figures, joined
from engine.train.torch.batches import Features, anchors_of, make_batch, plan_batches
from engine.train.torch.eagle3 import with_head_norm
from engine.train.torch.loss import make_goals, soft_cross_entropy
from engine.train.trainable import obstacle, require_trainable
from engine.train.training import HeadKind
from tests.tiny_gguf import write_tiny_gguf

CPU = torch.device("cpu")


# Held-out figures


def drafts(*rows: tuple[list[int], list[int], list[int]]) -> Drafts:
    drafted, chosen, written = zip(*rows, strict=True)
    return Drafts(np.array(drafted), np.array(chosen), np.array(written))


def test_a_chain_counts_up_to_its_first_miss() -> None:
    found = figures(
        drafts(
            ([1, 2, 3], [1, 2, 3], [1, 2, 3]),
            ([1, 9, 3], [1, 2, 3], [1, 2, 3]),
            ([9, 2, 3], [1, 2, 3], [1, 2, 3]),
            ([9, 9, 3], [1, 2, 3], [1, 2, 3]),
        )
    )
    assert found.hits == (0.5, 0.5, 1.0)
    assert found.conditional == (0.5, 0.5, 1.0)
    assert found.accepted == 0.5 + 0.25 + 0.25
    assert found.anchors == 4


def test_what_the_target_would_have_said_elsewhere_is_not_known() -> None:
    """Where the document left the target's choice, later positions are not counted."""
    left = ([1, 2], [1, 5], [7, 5])
    stayed = ([1, 2], [1, 2], [1, 2])
    found = figures(joined([drafts(left), drafts(stayed)]))
    assert found.hits == (1.0, 1.0) and found.accepted == 2.0


def test_positions_beyond_the_end_are_not_counted() -> None:
    found = figures(drafts(([1, -1], [1, -1], [1, -1]), ([1, 2], [1, 3], [1, 3])))
    assert found.hits == (1.0, 0.0) and found.accepted == 1.0


# Vocabulary


def test_the_seen_tokens_then_the_lowest() -> None:
    counts = np.array([0, 0, 0, 5, 0, 1, 0, 9])
    assert choose_tokens(counts, 5, 8).tolist() == [0, 1, 3, 5, 7]
    assert choose_tokens(counts, 2, 8).tolist() == [3, 7]
    assert choose_tokens(counts, 99, 8).tolist() == list(range(8))
    assert positions_of(np.array([3, 7]), 8).tolist() == [-1, -1, -1, 0, -1, -1, -1, 1]


# Loss


def full_loss(states: torch.Tensor, head: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over all of the head; p: [n, rows], may sum to less than 1."""
    logs = torch.log_softmax(states @ head.t(), dim=1)
    return -(p * logs).sum()


def test_with_every_row_a_candidate_the_loss_is_the_whole_one() -> None:
    torch.manual_seed(0)
    states, head = torch.randn(3, 8), torch.randn(20, 8)
    top = torch.tensor([[1, 4, 7], [7, -1, 2], [19, 0, 3]])
    probs = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.05], [0.9, 0.05, 0.03]])
    goals = make_goals(top, probs, 20, 2000, np.random.default_rng(0))
    assert sorted(goals.rows.tolist()) == list(range(20)) and not goals.offsets.any()
    found = soft_cross_entropy(states, head[goals.rows], goals, torch.arange(3), torch.ones(3))
    p = torch.zeros(3, 21).scatter_add_(1, torch.where(top < 0, 20, top), probs)[:, :20]
    torch.testing.assert_close(found, full_loss(states, head, p))


def test_a_few_rows_stand_for_all_the_others() -> None:
    torch.manual_seed(1)
    states, head = torch.randn(2, 4), 0.3 * torch.randn(400, 4)
    top, probs = torch.tensor([[1, 4], [7, 2]]), torch.tensor([[0.6, 0.4], [0.7, 0.3]])
    p = torch.zeros(2, 400).scatter_add_(1, top, probs)
    found = []
    for seed in range(60):
        goals = make_goals(top, probs, 400, 60, np.random.default_rng(seed))
        assert len(goals.rows) < 70
        rows = head[goals.rows]
        found.append(soft_cross_entropy(states, rows, goals, torch.arange(2), torch.ones(2)))
    expected = float(full_loss(states, head, p))
    assert float(torch.stack(found).mean()) == pytest.approx(expected, rel=0.01)


# Batches


def document(answer: list[bool]) -> Document:
    count = len(answer)
    rows = np.zeros((count, 2), np.float16)
    return Document(
        "d", "c", False, np.arange(count, dtype=np.int32), np.array(answer), rows, rows,
        np.zeros((count, 2), np.int32), rows,
    )  # fmt: skip


def test_anchors_are_rows_whose_later_tokens_are_learned() -> None:
    answer = np.array([False, False, True, True, True, False, True])
    assert np.flatnonzero(anchors_of(answer, 1)).tolist() == [0, 1, 2, 4]
    assert np.flatnonzero(anchors_of(answer, 2)).tolist() == [0, 1]
    assert np.flatnonzero(anchors_of(answer, 3)).tolist() == [0]


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=9), min_size=1, max_size=4))
def test_a_batch_holds_its_documents_side_by_side(answers: list[list[bool]]) -> None:
    documents = [document(answer) for answer in answers]
    batch = make_batch(documents, 3, Features(), CPU)
    assert batch.starts == tuple(np.cumsum([0, *map(len, answers)]).tolist())
    for position, anchors in enumerate(batch.anchors, start=1):
        expected = [
            start + int(row)
            for one, start in zip(documents, batch.starts, strict=False)
            for row in np.flatnonzero(anchors_of(one.answer, position))
        ]
        assert anchors.tolist() == expected
        assert set(expected) <= set(batch.anchors[0].tolist())


@given(
    lengths=st.lists(st.integers(0, 50), max_size=30),
    size=st.integers(1, 80),
    seed=st.integers(0, 5),
)
def test_every_document_with_learned_tokens_is_in_one_batch(
    lengths: list[int], size: int, seed: int
) -> None:
    groups = plan_batches(lengths, size, seed, 0)
    held = sorted(number for group in groups for number in group)
    assert held == [number for number, length in enumerate(lengths) if length]
    assert all(sum(lengths[number] for number in group) >= size for group in groups[:-1])
    assert plan_batches(lengths, size, seed, 0) == groups


# The target's weights


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q6_K", "F16"])
def test_weights_of_any_format_are_read(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((6, 256)).astype(np.float32)
    data = TensorData(kind, (6, 256), quantize(values, kind))
    found = dequantize(data)
    expected = gguf.quants.dequantize(data.raw, gguf.GGMLQuantizationType[kind]).reshape(6, 256)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(dequantize(data, 2, 5), found[2:5])


@pytest.mark.parametrize(
    ("architecture", "kinds"),
    [
        ("llama", {"medusa", "eagle3", "early-exit"}),
        ("qwen2", {"medusa", "eagle3", "early-exit"}),
        ("qwen3", {"medusa", "eagle3"}),
        ("gemma", {"medusa"}),
    ],
)
def test_what_can_be_learned_from_a_target(
    tmp_path: Path, architecture: str, kinds: set[HeadKind]
) -> None:
    path = write_tiny_gguf(tmp_path / "target.gguf", architecture=architecture)
    every: tuple[HeadKind, ...] = ("medusa", "eagle3", "early-exit")
    assert {kind for kind in every if not obstacle(kind, path)} == kinds
    for kind in every:
        if kind in kinds:
            require_trainable(kind, path)
            continue
        with pytest.raises(IncompatiblePairError, match=f"architecture is {architecture}"):
            require_trainable(kind, path)


def test_a_target_with_scaled_positions_is_not_cut(tmp_path: Path) -> None:
    """As Llama 3.1 and 3.2 have them. An EAGLE-3 layer has positions of its own."""
    plain = write_tiny_gguf(tmp_path / "plain.gguf")
    tensors = read_tensors(plain)
    scales = TensorData("F32", (8,), np.ones(8, np.float32).view(np.uint8))
    scaled = tmp_path / "scaled.gguf"
    metadata: dict[str, MetadataValue] = {
        key: value
        for key, value in read_header(plain).metadata.items()
        if not isinstance(value, tuple)
    }
    write_gguf(scaled, metadata, {**tensors, "rope_freqs.weight": scales})
    assert "scaled" in obstacle("early-exit", scaled)
    assert not obstacle("eagle3", scaled)


def test_a_norm_of_heads_is_put_into_their_rows_at_its_usual_size() -> None:
    random = np.random.default_rng(0)
    matrix = random.standard_normal((4 * 16, 64)).astype(np.float32) * 3.0
    norm, inner = (random.uniform(0.5, 2.0, n).astype(np.float32) for n in (16, 64))
    states = random.standard_normal((5000, 64)) * inner
    heads = (states @ matrix.T).reshape(-1, 4, 16)
    exact = heads / np.sqrt((heads**2).mean(axis=2, keepdims=True)) * norm
    found = (states @ with_head_norm(matrix, norm, inner).T).reshape(-1, 4, 16)
    cosine = (exact * found).sum(2) / np.linalg.norm(exact, axis=2) / np.linalg.norm(found, axis=2)
    np.testing.assert_allclose(cosine, 1.0, atol=1e-5)
    assert np.mean(np.linalg.norm(found, axis=2) / np.linalg.norm(exact, axis=2)) == pytest.approx(
        1.0, abs=0.1
    )
