"""Files of trained drafters: back from published formats, completed, opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.drafters.build_context import BuildContext
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.parse import parse_expression
from engine.files.gguf import inspect
from engine.files.gguf_data import read_tensors
from engine.heads.eagle3_convert import convert_eagle3
from engine.heads.eagle3_rows import complete_eagle3, lacks_rows
from engine.heads.pairing import require_medusa
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.train.eagle3_file import Eagle3Weights, write_eagle3, write_published
from engine.train.medusa_output import write_published as write_published_medusa
from engine.train.torch import eagle3 as torch_eagle3
from engine.train.torch import medusa as torch_medusa
from tests.engine.conftest import THREADS
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import TinyReply
from tests.engine.training_bench import TEXT, TrainingBench, shaken


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def bench(
    request: pytest.FixtureRequest, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainingBench]:
    bench = TrainingBench(library, tmp_path_factory.mktemp(request.param), request.param)
    yield bench
    bench.model.close()


@pytest.fixture(scope="module")
def llama(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrainingBench]:
    bench = TrainingBench(library, tmp_path_factory.mktemp("llama-only"), "llama")
    yield bench
    bench.model.close()


def test_published_eagle3_weights_convert_back(bench: TrainingBench, tmp_path: Path) -> None:
    weights = shaken(torch_eagle3.initial_weights(bench.target, 0))
    described = Eagle3Weights(weights, bench.ids, bench.layers)
    (tmp_path / "hf").mkdir()
    write_published(tmp_path / "hf", described, bench.target)
    convert_eagle3(tmp_path / "hf", inspect(bench.path), tmp_path / "back.gguf")
    write_eagle3(tmp_path / "own.gguf", described, bench.target, "Q8_0", own_head=True)
    back, own = read_tensors(tmp_path / "back.gguf"), read_tensors(tmp_path / "own.gguf")
    assert set(back) == set(own)
    np.testing.assert_array_equal(back["d2t"].raw, own["d2t"].raw)
    for name in ("blk.0.attn_q.weight", "blk.0.attn_k.weight", "fc.weight"):
        assert np.mean(back[name].raw == own[name].raw) > 0.9, "half precision moves few blocks"


def test_a_file_without_a_head_gets_the_target_s_rows(bench: TrainingBench, tmp_path: Path) -> None:
    weights = torch_eagle3.initial_weights(bench.target, 0)
    described = Eagle3Weights(weights, bench.ids, bench.layers)
    write_eagle3(tmp_path / "small.gguf", described, bench.target, "Q8_0", own_head=False)
    write_eagle3(tmp_path / "whole.gguf", described, bench.target, "Q8_0", own_head=True)
    assert lacks_rows(tmp_path / "small.gguf") and not lacks_rows(tmp_path / "whole.gguf")
    matrix = bench.target.head_data()
    complete_eagle3(tmp_path / "small.gguf", matrix, tmp_path / "completed.gguf")
    whole, completed = (read_tensors(tmp_path / f"{n}.gguf") for n in ("whole", "completed"))
    assert set(whole) == set(completed) > set(read_tensors(tmp_path / "small.gguf"))
    for name, data in whole.items():
        np.testing.assert_array_equal(data.raw, completed[name].raw)
    with Model(tmp_path / "completed.gguf", ModelOptions(), bench.library.log) as model:
        assert model.hidden_size == 64


def test_the_rows_are_added_when_the_drafter_is_opened(
    llama: TrainingBench, tmp_path: Path
) -> None:
    weights = shaken(torch_eagle3.initial_weights(llama.target, 0))
    described = Eagle3Weights(weights, llama.ids, llama.layers)
    write_eagle3(tmp_path / "small.gguf", described, llama.target, "Q8_0", own_head=False)
    write_eagle3(tmp_path / "whole.gguf", described, llama.target, "Q8_0", own_head=True)
    tokens = []
    for name in ("small", "whole", "small"):
        capture = HiddenStateCapture()
        build = BuildContext(
            llama.model, 64, THREADS, 0, AbortFlag(), llama.library.log, tmp_path / "derived",
            lambda _label, _fraction: None, capture,
        )  # fmt: skip
        expression = parse_expression(f"eagle3:{tmp_path / name}.gguf")
        drafter = build_drafter(expression, build)
        options = ContextOptions(64, 16, THREADS, layer_inputs=llama.layers)
        with Context(llama.model, options, AbortFlag()) as context:
            capture.connect(context)
            reply = TinyReply(context, drafter, TEXT, count=8)
            tokens.append([node.token for one in reply.rounds for node in one.proposed])
            drafter.close()
    assert len(list((tmp_path / "derived").iterdir())) == 1, "made once"
    assert tokens[0] == tokens[1] == tokens[2]
    assert tokens[0] and set(tokens[0]) <= set(llama.ids.tolist())


def test_published_medusa_weights_are_read_back(llama: TrainingBench, tmp_path: Path) -> None:
    weights = shaken(torch_medusa.initial_weights(64, 2, 1))
    write_published_medusa(tmp_path, weights, llama.ids, llama.target)
    heads = require_medusa(llama.path, tmp_path)
    assert not heads.shares_rows and heads.rows == llama.target.vocabulary
    stored = heads.heads[1].blocks[0][0].floats()
    np.testing.assert_allclose(stored, weights["1.0.linear.weight"], rtol=1e-3, atol=1e-6)


def test_rows_that_a_head_has_not_learned_are_published_as_the_target_s(
    llama: TrainingBench, tmp_path: Path
) -> None:
    own = np.full((len(llama.ids), 64), 0.5, np.float32)
    weights = torch_medusa.initial_weights(64, 2, 1, own)
    write_published_medusa(tmp_path, weights, llama.ids, llama.target)
    rows = require_medusa(llama.path, tmp_path).heads[1].output
    assert rows is not None
    expected = llama.target.head_rows(np.arange(llama.target.vocabulary))
    expected[llama.ids] = 0.5
    np.testing.assert_allclose(rows.floats(), expected, rtol=1e-3, atol=1e-6)
