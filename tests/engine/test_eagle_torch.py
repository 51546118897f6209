"""EAGLE-1 and EAGLE-2 layers against torch: its checkpoints, its logits, its states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.control.controller import AlwaysDraft
from engine.data.request import SamplingParams
from engine.drafters.base import DraftRound, StepDrafter
from engine.drafters.features.eagle_layer import EagleDecoder
from engine.heads.pairing import target_ends
from engine.llama.library import Library
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from tests.eagle_files import EagleSizes
from tests.eagle_torch import Layout, TorchEagle
from tests.engine.head_bench import HIDDEN, EagleBench

TEXT = [72, 101, 108, 108, 111, 44, 32, 119, 17, 33, 80, 81, 82]
ERRORS = {"F32": 0.005, "F16": 0.01, "Q8_0": 0.2}
"""Largest difference of logits that range over about ten; the KV cache has half precision."""
CHECKPOINTS: list[tuple[Layout, torch.dtype, bool]] = [
    ("torch", torch.float16, False),
    ("torch", torch.bfloat16, True),
    ("torch", torch.float32, True),
    ("safetensors", torch.float16, True),
    ("safetensors", torch.bfloat16, False),
]
"""How they are published: layout, number type, biases."""

Array = NDArray[np.float32]


@pytest.fixture
def bench(library: Library, tmp_path: Path) -> Iterator[EagleBench]:
    with EagleBench(library, tmp_path) as bench:
        yield bench


def torch_layer(
    bench: EagleBench, dtype: torch.dtype = torch.float16, biases: bool = True
) -> TorchEagle:
    embeddings, output = (one.floats() for one in target_ends(bench.path))
    sizes = EagleSizes(HIDDEN, bench.model.vocab.size, biases=biases)
    layer = TorchEagle(sizes, (embeddings, output))
    return layer.to(dtype).to(torch.float32)


def true_states(bench: EagleBench, text: Sequence[int]) -> Array:
    """The target's final states, which its output matrix makes its logits of."""
    context = bench.context()
    rows = context.extend(text).copy()
    context.clear()
    context.feed(text)
    states = context.layer_inputs(len(text)).copy()
    np.testing.assert_allclose(states @ target_ends(bench.path)[1].floats().T, rows, atol=1e-3)
    return states


@pytest.mark.parametrize(("layout", "dtype", "biases"), CHECKPOINTS)
def test_drafts_are_those_of_torch(
    bench: EagleBench, layout: Layout, dtype: torch.dtype, biases: bool
) -> None:
    """The first token, several more over a growing cache, and again after a rollback."""
    reference = torch_layer(bench, dtype, biases)
    folder = reference.save(bench.folder / "layer", layout, dtype)
    states = true_states(bench, TEXT)
    for kind, error in ERRORS.items():
        reference.truncate(0)
        compare_drafts(bench.decoder(folder, kind), reference, states, error)


def compare_drafts(
    decoder: EagleDecoder, reference: TorchEagle, states: Array, error: float
) -> None:
    known = 0  # entries whose states are the target's
    for end, drafted in ((8, [5, 6, 7, 8]), (10, [9, 4, 3, 2]), (13, [11, 12, 13])):
        decoder.truncate(known)  # the drafted entries go, those of the text stay
        reference.truncate(known)
        fed, known = known, end - 2
        decoder.feed(TEXT[fed + 1 : end - 1], states[fed:known])
        reference(TEXT[fed + 1 : end - 1], states[fed:known])
        token, state, true_state = TEXT[end - 1], states[known], states[known]
        for following in drafted:
            row, state = decoder.draft(token, state)
            true_rows, true_out = reference([token], true_state[None])
            true_state = true_out[0]
            assert np.ptp(true_rows) > 5.0
            np.testing.assert_allclose(row, true_rows[0], atol=error)
            np.testing.assert_allclose(state, true_state, atol=error / 3)
            token = following


def test_a_loaded_drafter_draws_from_the_law_of_torch(bench: EagleBench) -> None:
    """As a drafter of a chat: it pairs tokens with states by itself, and follows an edited text."""
    reference = torch_layer(bench)
    folder = reference.save(bench.folder / "layer", "torch", torch.float16)
    context = bench.context()
    drafter = bench.step_drafter(folder, context)
    for text in (TEXT[:9], TEXT, [*TEXT[:6], 40, 41, 42, 43]):
        context.reuse(text[:-1])
        context.feed(text[len(context.tokens) : -1])
        drafter.begin(text)
        found = drafted_laws(drafter, text, [5, 6, 7])
        states = true_states(bench, text[:-1])
        reference.truncate(0)
        rows, out = reference(text[1:], states)
        for token, law in zip([5, 6, 7], found, strict=True):
            expected = torch.softmax(torch.tensor(rows[-1]), dim=0).numpy()
            assert np.abs(law - expected).sum() / 2 < 0.02
            rows, out = reference([token], out[-1:])


def drafted_laws(
    drafter: StepDrafter, text: Sequence[int], tokens: Sequence[int]
) -> list[NDArray[np.float64]]:
    """q [ids] of the next token, then after each of `tokens` but the last."""
    round_ = DraftRound(
        context=list(text),
        max_depth=4,
        sampler=Sampler(SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)),
        mode="sampled",
        stream=IndependentStream(5, "draft"),
        policy=AlwaysDraft(4),
    )
    assert drafter.start(round_)
    laws = []
    for token in tokens:
        assert drafter.peek() is not None
        q = drafter.distribution()
        laws.append(np.zeros(q.ids.max() + 1))
        laws[-1][q.ids] = q.probabilities
        drafter.advance(token)
    return laws
