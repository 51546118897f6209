"""Drafters in torch against the same weights in llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.drafters.features.medusa_graph import MedusaGraph
from engine.files.gguf import inspect
from engine.heads.medusa_file import read_medusa
from engine.heads.pairing import require_eagle3, require_medusa
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.train.cut_file import write_cut
from engine.train.eagle3_file import Eagle3Weights, write_eagle3
from engine.train.encoded import through_format
from engine.train.medusa_output import write_container
from engine.train.torch import eagle3 as torch_eagle3
from engine.train.torch import early_exit as torch_early_exit
from engine.train.torch import medusa as torch_medusa
from engine.train.torch.batches import make_batch
from engine.train.torch.eagle3 import Eagle3Student
from engine.train.torch.early_exit import EarlyExitStudent
from engine.train.torch.medusa import MedusaStudent
from tests.engine.conftest import THREADS
from tests.engine.training_bench import CPU, TEXT, TrainingBench, shaken

ANCHOR = 5
ERRORS = {"F32": 5e-3, "F16": 1e-2, "Q8_0": 0.5}
"""Largest difference of logits that range over about ten."""


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def bench(
    request: pytest.FixtureRequest, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainingBench]:
    bench = TrainingBench(library, tmp_path_factory.mktemp(request.param), request.param)
    yield bench
    bench.model.close()


@pytest.mark.parametrize("kind", ERRORS)
def test_eagle3_drafts_in_llama_cpp_what_it_drafts_in_torch(
    bench: TrainingBench, tmp_path: Path, kind: str
) -> None:
    weights = shaken(torch_eagle3.initial_weights(bench.target, 0))
    student = Eagle3Student(bench.target, weights, bench.head(bench.ids), 4, CPU)
    path = tmp_path / "eagle3.gguf"
    described = Eagle3Weights(weights, bench.ids, bench.layers)
    write_eagle3(path, described, bench.target, kind, own_head=True)
    require_eagle3(bench.path, path)
    abort = AbortFlag()
    options = ContextOptions(64, 16, THREADS, layer_inputs=bench.layers)
    with (
        Context(bench.model, options, abort) as context,
        Model(path, ModelOptions(), bench.library.log) as model,
    ):
        context.feed(TEXT)
        # The corpus keeps half precision, so both sides get that.
        layers = context.layer_inputs(len(TEXT)).astype(np.float16).astype(np.float32)
        decoder = Eagle3Context(model, context, THREADS, abort)
        states = decoder.encode(layers)
        decoder.feed(TEXT[1 : ANCHOR + 1], states[:ANCHOR])
        state, rows = states[ANCHOR], []
        for step in range(4):
            row, state = decoder.draft(TEXT[ANCHOR + 1 + step], state)
            rows.append(row[bench.ids].copy())
        decoder.close()
    one = bench.document(layers, layers[:, :64], TEXT)
    batch = make_batch([one, one], 4, student.features, CPU)
    for step, states_of_step in enumerate(student.final_states(batch)):
        places = [i for i, row in enumerate(batch.anchors[step].tolist()) if row % 13 == ANCHOR]
        assert len(places) == 2, "once in each copy of the document"
        logits = (states_of_step[places] @ student.head.rows.t()).detach().numpy()
        np.testing.assert_allclose(logits[0], logits[1], atol=1e-4)
        np.testing.assert_allclose(logits[0], rows[step], atol=ERRORS[kind])


@pytest.mark.parametrize("kind", ERRORS)
def test_medusa_drafts_as_a_graph_what_it_drafts_in_torch(
    bench: TrainingBench, tmp_path: Path, kind: str
) -> None:
    weights = shaken(torch_medusa.initial_weights(64, 3, 2))
    student = MedusaStudent(weights, bench.head(bench.ids), 3, CPU)
    path = tmp_path / "medusa.gguf"
    write_container(path, weights, bench.ids, bench.target, kind)
    stored = read_medusa(path)
    assert stored.shares_rows and stored.rows == len(bench.ids) and stored.hidden_size == 64
    heads = require_medusa(bench.path, path)
    assert heads.bytes == stored.bytes + bench.target.head_part(bench.ids).raw.nbytes
    hidden = np.random.default_rng(0).standard_normal((13, 64)).astype(np.float16)
    one = bench.document(hidden, hidden.astype(np.float32), TEXT)
    batch = make_batch([one], 3, student.features, CPU)
    graph = MedusaGraph(heads, THREADS, kind)
    graph.run(hidden[ANCHOR].astype(np.float32))
    for head, states in enumerate(student.final_states(batch)):
        place = batch.anchors[head].tolist().index(ANCHOR)
        logits = (states[place] @ student.head.rows.t()).detach().numpy()
        np.testing.assert_allclose(graph.logits(head), logits, atol=ERRORS[kind])
    graph.close()


@pytest.mark.parametrize("bench", ["llama", "qwen2"], indirect=True, scope="module")
@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_a_cut_target_says_in_llama_cpp_what_it_says_in_torch(
    bench: TrainingBench, tmp_path: Path, kind: str
) -> None:
    kept = (0, 1, 4, 5)
    weights = shaken(torch_early_exit.initial_weights(bench.target, kept))
    stored = {name: through_format(value, kind) for name, value in weights.items()}
    head = bench.head(np.arange(bench.target.vocabulary))
    student = EarlyExitStudent(bench.target, stored, head, 2, CPU)
    path = tmp_path / "cut.gguf"
    write_cut(path, weights, kept, bench.target, kind, bench.library.log)
    assert [one.name for one in tmp_path.iterdir()] == ["cut.gguf"]
    assert inspect(path).block_count == 4
    with (
        Model(path, ModelOptions(), bench.library.log) as model,
        Context(model, ContextOptions(64, 16, THREADS), AbortFlag()) as context,
    ):
        theirs = context.extend(TEXT).copy()
    zeros = np.zeros((13, 64), np.float32)
    batch = make_batch([bench.document(zeros, zeros, TEXT)] * 2, 2, student.features, CPU)
    ours = (student.final_states(batch) @ head.rows.t()).detach().numpy()
    np.testing.assert_allclose(ours[:13], ours[13:], atol=1e-4)
    np.testing.assert_allclose(ours[:13], theirs, atol=0.1 if kind == "F16" else 1.0)
