"""Training on a tiny target: torch against llama.cpp, files, determinism, resuming, stopping."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.data.errors import BadOptionError, RunError, SuspendedError
from engine.drafters.build_context import BuildContext
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.features.medusa_graph import MedusaGraph
from engine.drafters.parse import parse_expression
from engine.files.gguf import inspect
from engine.files.gguf_data import read_tensors
from engine.heads.eagle3_convert import convert_eagle3
from engine.heads.eagle3_rows import complete_eagle3, lacks_rows
from engine.heads.medusa_file import read_medusa
from engine.heads.pairing import require_eagle3, require_medusa
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.train.corpus.settings import read_layers
from engine.train.corpus.shards import Corpus, Document
from engine.train.cut_file import write_cut
from engine.train.draft_vocabulary import positions_of
from engine.train.eagle3_file import Eagle3Weights, write_eagle3, write_published
from engine.train.encoded import through_format
from engine.train.medusa_output import write_container
from engine.train.medusa_output import write_published as write_published_medusa
from engine.train.target_weights import TargetWeights
from engine.train.torch import eagle3 as torch_eagle3
from engine.train.torch import early_exit as torch_early_exit
from engine.train.torch import medusa as torch_medusa
from engine.train.torch.batches import learned_tokens, make_batch
from engine.train.torch.compute import Compute, choose_compute
from engine.train.torch.dataset import Dataset, Sample, heldout_sample, limited, measure
from engine.train.torch.eagle3 import Eagle3Student
from engine.train.torch.early_exit import EarlyExitStudent
from engine.train.torch.fit import Fit
from engine.train.torch.medusa import MedusaStudent
from engine.train.torch.run import train
from engine.train.torch.student import DraftHead, Student
from engine.train.training import HeadKind, TrainProgress, TrainRequest, TrainSettings
from tests.engine.conftest import THREADS
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import TinyReply
from tests.tiny_corpus import write_tiny_corpus
from tests.tiny_gguf import write_tiny_gguf

CPU = torch.device("cpu")
FLOAT32 = Compute(CPU, bfloat16=False)
BFLOAT16 = Compute(CPU, bfloat16=True)
SETTINGS = TrainSettings(
    epochs=2, batch=60, draft_vocabulary=120, keep_layers=3, learning_rate=3e-3, evaluate_every=1e9
)
ERRORS = {"F32": 5e-3, "F16": 1e-2, "Q8_0": 0.5}
"""Largest difference of logits that range over about ten."""
Array = NDArray[np.float32]


class Ground:
    """A tiny target of one architecture with a corpus of its answers."""

    def __init__(self, library: Library, folder: Path, architecture: str) -> None:
        self.library = library
        self.folder = folder
        self.path = write_tiny_gguf(
            folder / f"{architecture}.gguf", layers=6, architecture=architecture
        )
        self.target = TargetWeights(self.path)
        self.layers = read_layers(self.target.layers)
        self.model = Model(self.path, ModelOptions(), library.log)
        self.corpus = write_tiny_corpus(folder / f"corpus-{architecture}", self.model, 16)
        self.ids = np.arange(0, self.target.vocabulary, 2)

    def head(self, ids: NDArray[np.int64]) -> DraftHead:
        rows = self.target.head_rows(ids)
        return DraftHead(rows, ids, positions_of(ids, self.target.vocabulary), CPU)

    def document(self, layers: Array, hidden: Array, tokens: list[int]) -> Document:
        count = len(tokens)
        return Document(
            "d", "c", False, np.array(tokens, np.int32), np.arange(count) > 3,
            hidden.astype(np.float16), layers.astype(np.float16), np.zeros((count, 1), np.int32),
            np.zeros((count, 1), np.float16),
        )  # fmt: skip

    def request(self, kind: HeadKind, **changes: object) -> TrainRequest:
        request = TrainRequest(
            kind, "tiny", str(self.path), "0" * 64, str(self.corpus),
            str(self.folder / f"out-{kind}"), "", f"train {kind}", SETTINGS,
        )  # fmt: skip
        return replace(request, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def ground(
    request: pytest.FixtureRequest, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    ground = Ground(library, tmp_path_factory.mktemp(request.param), request.param)
    yield ground
    ground.model.close()


@pytest.fixture(scope="module")
def llama(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = Ground(library, tmp_path_factory.mktemp("llama-only"), "llama")
    yield ground
    ground.model.close()


def shaken(weights: dict[str, Array]) -> dict[str, Array]:
    """Fresh weights moved a little, so that no part of them is neutral."""
    random = np.random.default_rng(3)
    return {
        name: (value + 0.05 * random.standard_normal(value.shape)).astype(np.float32)
        for name, value in weights.items()
    }


# Torch against llama.cpp

TEXT = [72, 101, 108, 108, 111, 44, 32, 119, 17, 33, 80, 81, 82]
ANCHOR = 5


@pytest.mark.parametrize("kind", ERRORS)
def test_eagle3_drafts_in_llama_cpp_what_it_drafts_in_torch(
    ground: Ground, tmp_path: Path, kind: str
) -> None:
    weights = shaken(torch_eagle3.initial_weights(ground.target, 0))
    student = Eagle3Student(ground.target, weights, ground.head(ground.ids), 4, CPU)
    path = tmp_path / "eagle3.gguf"
    described = Eagle3Weights(weights, ground.ids, ground.layers)
    write_eagle3(path, described, ground.target, kind, own_head=True)
    require_eagle3(ground.path, path)
    abort = AbortFlag()
    options = ContextOptions(64, 16, THREADS, layer_inputs=ground.layers)
    with (
        Context(ground.model, options, abort) as context,
        Model(path, ModelOptions(), ground.library.log) as model,
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
            rows.append(row[ground.ids].copy())
        decoder.close()
    one = ground.document(layers, layers[:, :64], TEXT)
    batch = make_batch([one, one], 4, student.features, CPU)
    for step, states_of_step in enumerate(student.final_states(batch)):
        places = [i for i, row in enumerate(batch.anchors[step].tolist()) if row % 13 == ANCHOR]
        assert len(places) == 2, "once in each copy of the document"
        logits = (states_of_step[places] @ student.head.rows.t()).detach().numpy()
        np.testing.assert_allclose(logits[0], logits[1], atol=1e-4)
        np.testing.assert_allclose(logits[0], rows[step], atol=ERRORS[kind])


@pytest.mark.parametrize("kind", ERRORS)
def test_medusa_drafts_as_a_graph_what_it_drafts_in_torch(
    ground: Ground, tmp_path: Path, kind: str
) -> None:
    weights = shaken(torch_medusa.initial_weights(64, 3, 2))
    student = MedusaStudent(weights, ground.head(ground.ids), 3, CPU)
    path = tmp_path / "medusa.gguf"
    write_container(path, weights, ground.ids, ground.target, kind)
    stored = read_medusa(path)
    assert stored.shares_rows and stored.rows == len(ground.ids) and stored.hidden_size == 64
    heads = require_medusa(ground.path, path)
    assert heads.bytes == stored.bytes + ground.target.head_part(ground.ids).raw.nbytes
    hidden = np.random.default_rng(0).standard_normal((13, 64)).astype(np.float16)
    one = ground.document(hidden, hidden.astype(np.float32), TEXT)
    batch = make_batch([one], 3, student.features, CPU)
    graph = MedusaGraph(heads, THREADS, kind)
    graph.run(hidden[ANCHOR].astype(np.float32))
    for head, states in enumerate(student.final_states(batch)):
        place = batch.anchors[head].tolist().index(ANCHOR)
        logits = (states[place] @ student.head.rows.t()).detach().numpy()
        np.testing.assert_allclose(graph.logits(head), logits, atol=ERRORS[kind])
    graph.close()


@pytest.mark.parametrize("ground", ["llama", "qwen2"], indirect=True, scope="module")
@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_a_cut_target_says_in_llama_cpp_what_it_says_in_torch(
    ground: Ground, tmp_path: Path, kind: str
) -> None:
    kept = (0, 1, 4, 5)
    weights = shaken(torch_early_exit.initial_weights(ground.target, kept))
    stored = {name: through_format(value, kind) for name, value in weights.items()}
    head = ground.head(np.arange(ground.target.vocabulary))
    student = EarlyExitStudent(ground.target, stored, head, 2, CPU)
    path = tmp_path / "cut.gguf"
    write_cut(path, weights, kept, ground.target, kind, ground.library.log)
    assert [one.name for one in tmp_path.iterdir()] == ["cut.gguf"]
    assert inspect(path).block_count == 4
    with (
        Model(path, ModelOptions(), ground.library.log) as model,
        Context(model, ContextOptions(64, 16, THREADS), AbortFlag()) as context,
    ):
        theirs = context.extend(TEXT).copy()
    zeros = np.zeros((13, 64), np.float32)
    batch = make_batch([ground.document(zeros, zeros, TEXT)] * 2, 2, student.features, CPU)
    ours = (student.final_states(batch) @ head.rows.t()).detach().numpy()
    np.testing.assert_allclose(ours[:13], ours[13:], atol=1e-4)
    np.testing.assert_allclose(ours[:13], theirs, atol=0.1 if kind == "F16" else 1.0)


# Files


def test_published_eagle3_weights_convert_back(ground: Ground, tmp_path: Path) -> None:
    weights = shaken(torch_eagle3.initial_weights(ground.target, 0))
    described = Eagle3Weights(weights, ground.ids, ground.layers)
    (tmp_path / "hf").mkdir()
    write_published(tmp_path / "hf", described, ground.target)
    convert_eagle3(tmp_path / "hf", inspect(ground.path), tmp_path / "back.gguf")
    write_eagle3(tmp_path / "own.gguf", described, ground.target, "Q8_0", own_head=True)
    back, own = read_tensors(tmp_path / "back.gguf"), read_tensors(tmp_path / "own.gguf")
    assert set(back) == set(own)
    np.testing.assert_array_equal(back["d2t"].raw, own["d2t"].raw)
    for name in ("blk.0.attn_q.weight", "blk.0.attn_k.weight", "fc.weight"):
        assert np.mean(back[name].raw == own[name].raw) > 0.9, "half precision moves few blocks"


def test_a_file_without_a_head_gets_the_target_s_rows(ground: Ground, tmp_path: Path) -> None:
    weights = torch_eagle3.initial_weights(ground.target, 0)
    described = Eagle3Weights(weights, ground.ids, ground.layers)
    write_eagle3(tmp_path / "small.gguf", described, ground.target, "Q8_0", own_head=False)
    write_eagle3(tmp_path / "whole.gguf", described, ground.target, "Q8_0", own_head=True)
    assert lacks_rows(tmp_path / "small.gguf") and not lacks_rows(tmp_path / "whole.gguf")
    matrix = ground.target.head_data()
    complete_eagle3(tmp_path / "small.gguf", matrix, tmp_path / "completed.gguf")
    whole, completed = (read_tensors(tmp_path / f"{n}.gguf") for n in ("whole", "completed"))
    assert set(whole) == set(completed) > set(read_tensors(tmp_path / "small.gguf"))
    for name, data in whole.items():
        np.testing.assert_array_equal(data.raw, completed[name].raw)
    with Model(tmp_path / "completed.gguf", ModelOptions(), ground.library.log) as model:
        assert model.hidden_size == 64


def test_the_rows_are_added_when_the_drafter_is_opened(llama: Ground, tmp_path: Path) -> None:
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


def test_published_medusa_weights_are_read_back(llama: Ground, tmp_path: Path) -> None:
    weights = shaken(torch_medusa.initial_weights(64, 2, 1))
    write_published_medusa(tmp_path, weights, llama.ids, llama.target)
    heads = require_medusa(llama.path, tmp_path)
    assert not heads.shares_rows and heads.rows == llama.target.vocabulary
    stored = heads.heads[1].blocks[0][0].floats()
    np.testing.assert_allclose(stored, weights["1.0.linear.weight"], rtol=1e-3, atol=1e-6)


def test_rows_that_a_head_has_not_learned_are_published_as_the_target_s(
    llama: Ground, tmp_path: Path
) -> None:
    own = np.full((len(llama.ids), 64), 0.5, np.float32)
    weights = torch_medusa.initial_weights(64, 2, 1, own)
    write_published_medusa(tmp_path, weights, llama.ids, llama.target)
    rows = require_medusa(llama.path, tmp_path).heads[1].output
    assert rows is not None
    expected = llama.target.head_rows(np.arange(llama.target.vocabulary))
    expected[llama.ids] = 0.5
    np.testing.assert_allclose(rows.floats(), expected, rtol=1e-3, atol=1e-6)


# Training


def test_a_limited_training_takes_the_user_s_own_documents_first(llama: Ground) -> None:
    every = documents(llama, heldout=False)
    kinds = ("text", "prompt file", "chat")
    mixed = [
        replace(one, category=kinds[n % 9 // 3] if n % 3 == 0 else "code")
        for n, one in enumerate(every)
    ]
    own = sum(learned_tokens(one) for one in mixed if one.category in kinds)
    found = limited(mixed, own + 1, seed=3)
    assert {one.category for one in found[:-1]} == set(kinds) and found[-1].category == "code"
    assert len(found) == 1 + sum(one.category in kinds for one in mixed)
    some = limited(mixed, own - 1, seed=3)
    assert all(one.category in kinds for one in some)
    assert limited(mixed, None, seed=3) == mixed


def test_a_sample_is_a_part_of_many_documents(llama: Ground) -> None:
    every = documents(llama, heldout=False)
    one, four = (heldout_sample(every, 40, spread, seed=1) for spread in (1, 4))
    assert one.share == pytest.approx(40 / sum(map(learned_tokens, one.documents)))
    assert len(four.documents) > 2 * len(one.documents) and four.share < one.share
    rest = heldout_sample(every, 40, 4, seed=1, after=40)
    assert not {d.id for d in rest.documents} & {d.id for d in four.documents}
    student = trainee_of(llama)
    found = measure(student, four, CPU)
    assert found == measure(student, four, CPU)
    assert found.anchors == pytest.approx(40, abs=25)
    assert heldout_sample([], 40, 4, seed=1) == Sample([], 1.0, 1)


def trainee_of(ground: Ground) -> Student:
    weights = torch_eagle3.initial_weights(ground.target, 0)
    every = np.arange(ground.target.vocabulary)
    return Eagle3Student(ground.target, weights, ground.head(every), 3, CPU)


def documents(ground: Ground, heldout: bool) -> list[Document]:
    return list(Corpus(ground.corpus).documents(heldout))


TRAINEES = ("eagle3", "medusa", "medusa with own rows", "early exit")


@pytest.mark.parametrize("compute", [FLOAT32, BFLOAT16], ids=lambda one: one.precision)
@pytest.mark.parametrize("kind", TRAINEES)
def test_it_learns_its_training_text(llama: Ground, kind: str, compute: Compute) -> None:
    """The watched documents are the training ones, so what is measured is that it learns."""
    train_set = documents(llama, heldout=False)[:3]
    student = _fresh(llama, kind)
    before = measure(student, Sample(train_set), CPU)
    settings = replace(SETTINGS, epochs=12, batch=30, learning_rate=8e-3)
    fitted = Fit(student, Dataset(train_set, train_set), settings, compute).run(
        lambda _progress: None, lambda: False
    )
    assert fitted.heldout.accepted > before.accepted + 0.2
    assert measure(student, Sample(train_set), CPU).accepted == fitted.heldout.accepted


@pytest.mark.parametrize("kind", TRAINEES)
def test_bfloat16_products_change_a_gradient_by_rounding_alone(llama: Ground, kind: str) -> None:
    gradients = []
    for compute in (FLOAT32, BFLOAT16):
        student = _fresh(llama, kind)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(4)
            for value in student.parameters.values():
                value.add_(0.02 * torch.randn(value.shape, generator=generator))
        batch = make_batch(documents(llama, False)[:3], student.positions, student.features, CPU)
        with compute.products():
            loss = student.loss(batch, np.random.default_rng(2))
        assert loss.dtype == torch.float32
        loss.backward()  # type: ignore[no-untyped-call]
        found = [value.grad for value in student.parameters.values()]
        assert all(one is not None and one.dtype == torch.float32 for one in found)
        gradients.append(torch.cat([one.flatten() for one in found if one is not None]))
    full, half = gradients
    assert not torch.equal(full, half)
    assert (full - half).norm() < 0.02 * full.norm()


@pytest.mark.parametrize(
    ("precision", "instruction", "expected"),
    [
        ("auto", True, "bfloat16"),
        ("auto", False, "float32"),
        ("float32", True, "float32"),
        ("bfloat16", False, "bfloat16"),
    ],
)
def test_auto_is_bfloat16_where_the_processor_multiplies_it(
    precision: str, instruction: bool, expected: str
) -> None:
    assert choose_compute("cpu", precision, instruction).precision == expected


def _fresh(ground: Ground, kind: str) -> Student:
    every = ground.head(np.arange(ground.target.vocabulary))
    if kind == "eagle3":
        return trainee_of(ground)
    if kind == "early exit":
        weights = torch_early_exit.initial_weights(ground.target, (0, 5))
        return EarlyExitStudent(ground.target, weights, every, 3, CPU)
    own = every.rows.numpy() if kind == "medusa with own rows" else None
    return MedusaStudent(torch_medusa.initial_weights(64, 2, 1, own), every, 2, CPU)


def weights_after(
    ground: Ground, seed: int, evaluate_every: float = 1e9
) -> dict[str, torch.Tensor]:
    student = trainee_of(ground)
    material = Dataset(documents(ground, False), documents(ground, True))
    settings = replace(SETTINGS, seed=seed, epochs=1, evaluate_every=evaluate_every)
    Fit(student, material, settings, FLOAT32).run(lambda _p: None, lambda: False)
    return student.parameters


def test_a_seed_gives_the_same_weights(llama: Ground) -> None:
    """However often the clock says that it is time for saving."""
    first, other = weights_after(llama, 5), weights_after(llama, 6)
    again = weights_after(llama, 5, evaluate_every=0.0)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])


def test_a_short_training_shows_how_it_goes(llama: Ground) -> None:
    material = Dataset(documents(llama, False), documents(llama, True))
    told: list[TrainProgress] = []
    settings = replace(SETTINGS, seconds=2.0, evaluate_every=60.0)
    fitted = Fit(trainee_of(llama), material, settings, FLOAT32).run(told.append, lambda: False)
    assert len(fitted.curve) >= 4, "at the start, at the end and in between"
    assert all(one.heldout is not None for one in told)


def test_an_interrupted_run_ends_where_a_whole_one_does(llama: Ground, tmp_path: Path) -> None:
    material = Dataset(documents(llama, False), documents(llama, True))
    whole = trainee_of(llama)
    expected = Fit(whole, material, SETTINGS, FLOAT32).run(lambda _p: None, lambda: False)
    steps: list[int] = []

    def third_step() -> bool:
        steps.append(1)
        if len(steps) == 4:
            raise SuspendedError("nobody waits")
        return False

    checkpoint = tmp_path / "run" / "checkpoint.pt"
    half = Fit(trainee_of(llama), material, SETTINGS, FLOAT32, checkpoint)
    with pytest.raises(SuspendedError):
        half.run(lambda _p: None, third_step)
    assert [one.name for one in checkpoint.parent.iterdir()] == ["checkpoint.pt"]
    resumed = trainee_of(llama)
    found = Fit(resumed, material, SETTINGS, FLOAT32, checkpoint).run(
        lambda _p: None, lambda: False
    )
    assert (found.steps, found.anchors) == (expected.steps, expected.anchors)
    assert found.heldout == expected.heldout
    for name, value in whole.parameters.items():
        assert torch.equal(resumed.parameters[name], value)
    other = replace(SETTINGS, seed=9, draft_vocabulary=99)
    with pytest.raises(RunError, match="with other draft vocabulary, seed; give the options"):
        Fit(trainee_of(llama), material, other, FLOAT32, checkpoint).run(
            lambda _p: None, lambda: False
        )
    less = replace(material, training=material.training[:-1])
    with pytest.raises(RunError, match="with other data"):
        Fit(trainee_of(llama), less, SETTINGS, FLOAT32, checkpoint).run(
            lambda _p: None, lambda: False
        )
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(RunError, match="damaged"):
        Fit(resumed, material, SETTINGS, FLOAT32, checkpoint).run(lambda _p: None, lambda: False)


@pytest.mark.parametrize(
    ("ground", "kind"),
    [
        *[("llama", kind) for kind in ("medusa", "eagle3", "early-exit")],
        *[("qwen2", kind) for kind in ("medusa", "eagle3", "early-exit")],
        *[("qwen3", kind) for kind in ("medusa", "eagle3")],
    ],
    indirect=["ground"],
    scope="module",
)
def test_from_a_corpus_to_a_finished_folder(ground: Ground, kind: HeadKind) -> None:
    told: list[TrainProgress] = []
    request = ground.request(kind, checkpoint=str(ground.folder / f"{kind}.pt"))
    card = train(request, ground.library, told.append, lambda: False)
    folder = Path(request.output)
    assert json.loads((folder / "card.json").read_text()) == json.loads(json.dumps(card))
    assert set(card["formats"]) == {"F32", "F16", "Q8_0", "Q4_0"}
    assert card["format"] in card["formats"] and len(card["heldout"]["hits"]) == 4
    assert card["check"]["agreeing"] >= 0.75 and card["corpus"]["documents"] == 16
    assert [one.stage for one in told if one.stage != "training"][-1] == "checking"
    assert not Path(request.checkpoint).exists()
    assert [one.name for one in ground.folder.glob(".part-*")] == []
    with pytest.raises(BadOptionError, match="exists already"):
        train(request, ground.library, told.append, lambda: False)


def test_a_training_that_cannot_work_leaves_nothing(llama: Ground) -> None:
    request = llama.request("early-exit", output=str(llama.folder / "never"))
    impossible = replace(request, settings=replace(SETTINGS, keep_layers=6))
    with pytest.raises(BadOptionError, match="keeps 2 to 5 layers"):
        train(impossible, llama.library, lambda _p: None, lambda: False)
    empty = replace(request, corpus=str(llama.folder / "nothing"))
    with pytest.raises(BadOptionError, match="too little text"):
        train(empty, llama.library, lambda _p: None, lambda: False)
    assert not (llama.folder / "never").exists()
