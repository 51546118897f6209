"""Training on a tiny target: determinism, resuming, stopping, from a corpus to a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.data.errors import BadOptionError, RunError, SuspendedError
from engine.llama.library import Library
from engine.train.corpus.shards import Corpus, Document
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
from engine.train.torch.student import Student
from engine.train.training import HeadKind, TrainProgress
from tests.engine.training_bench import CPU, SETTINGS, TrainingBench

FLOAT32 = Compute(CPU, bfloat16=False)
BFLOAT16 = Compute(CPU, bfloat16=True)


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


def test_a_limited_training_takes_the_user_s_own_documents_first(llama: TrainingBench) -> None:
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


def test_a_sample_is_a_part_of_many_documents(llama: TrainingBench) -> None:
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


def trainee_of(bench: TrainingBench) -> Student:
    weights = torch_eagle3.initial_weights(bench.target, 0)
    every = np.arange(bench.target.vocabulary)
    return Eagle3Student(bench.target, weights, bench.head(every), 3, CPU)


def documents(bench: TrainingBench, heldout: bool) -> list[Document]:
    return list(Corpus(bench.corpus).documents(heldout))


TRAINEES = ("eagle3", "medusa", "medusa with own rows", "early exit")


@pytest.mark.parametrize("compute", [FLOAT32, BFLOAT16], ids=lambda one: one.precision)
@pytest.mark.parametrize("kind", TRAINEES)
def test_it_learns_its_training_text(llama: TrainingBench, kind: str, compute: Compute) -> None:
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
def test_bfloat16_products_change_a_gradient_by_rounding_alone(
    llama: TrainingBench, kind: str
) -> None:
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
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
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


def _fresh(bench: TrainingBench, kind: str) -> Student:
    every = bench.head(np.arange(bench.target.vocabulary))
    if kind == "eagle3":
        return trainee_of(bench)
    if kind == "early exit":
        weights = torch_early_exit.initial_weights(bench.target, (0, 5))
        return EarlyExitStudent(bench.target, weights, every, 3, CPU)
    own = every.rows.numpy() if kind == "medusa with own rows" else None
    return MedusaStudent(torch_medusa.initial_weights(64, 2, 1, own), every, 2, CPU)


def weights_after(
    bench: TrainingBench, seed: int, evaluate_every: float = 1e9
) -> dict[str, torch.Tensor]:
    student = trainee_of(bench)
    material = Dataset(documents(bench, False), documents(bench, True))
    settings = replace(SETTINGS, seed=seed, epochs=1, evaluate_every=evaluate_every)
    Fit(student, material, settings, FLOAT32).run(lambda _p: None, lambda: False)
    return student.parameters


def test_a_seed_gives_the_same_weights(llama: TrainingBench) -> None:
    """However often the clock says that it is time for saving."""
    first, other = weights_after(llama, 5), weights_after(llama, 6)
    again = weights_after(llama, 5, evaluate_every=0.0)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])


def test_a_short_training_shows_how_it_goes(llama: TrainingBench) -> None:
    material = Dataset(documents(llama, False), documents(llama, True))
    told: list[TrainProgress] = []
    settings = replace(SETTINGS, seconds=2.0, evaluate_every=60.0)
    fitted = Fit(trainee_of(llama), material, settings, FLOAT32).run(told.append, lambda: False)
    assert len(fitted.curve) >= 4, "at the start, at the end and in between"
    assert all(one.heldout is not None for one in told)


def test_an_interrupted_run_ends_where_a_whole_one_does(
    llama: TrainingBench, tmp_path: Path
) -> None:
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
    ("bench", "kind"),
    [
        *[("llama", kind) for kind in ("medusa", "eagle3", "early-exit")],
        *[("qwen2", kind) for kind in ("medusa", "eagle3", "early-exit")],
        *[("qwen3", kind) for kind in ("medusa", "eagle3")],
    ],
    indirect=["bench"],
    scope="module",
)
def test_from_a_corpus_to_a_finished_folder(bench: TrainingBench, kind: HeadKind) -> None:
    told: list[TrainProgress] = []
    request = bench.request(kind, checkpoint=str(bench.folder / f"{kind}.pt"))
    card = train(request, bench.library, told.append, lambda: False)
    folder = Path(request.output)
    assert json.loads((folder / "card.json").read_text()) == json.loads(json.dumps(card))
    assert set(card["formats"]) == {"F32", "F16", "Q8_0", "Q4_0"}
    assert card["format"] in card["formats"] and len(card["heldout"]["hits"]) == 4
    assert card["check"]["agreeing"] >= 0.75 and card["corpus"]["documents"] == 16
    assert [one.stage for one in told if one.stage != "training"][-1] == "checking"
    assert not Path(request.checkpoint).exists()
    assert [one.name for one in bench.folder.glob(".part-*")] == []
    with pytest.raises(BadOptionError, match="exists already"):
        train(request, bench.library, told.append, lambda: False)


def test_a_training_that_cannot_work_leaves_nothing(llama: TrainingBench) -> None:
    request = llama.request("early-exit", output=str(llama.folder / "never"))
    impossible = replace(request, settings=replace(SETTINGS, keep_layers=6))
    with pytest.raises(BadOptionError, match="keeps 2 to 5 layers"):
        train(impossible, llama.library, lambda _p: None, lambda: False)
    empty = replace(request, corpus=str(llama.folder / "nothing"))
    with pytest.raises(BadOptionError, match="too little text"):
        train(empty, llama.library, lambda _p: None, lambda: False)
    assert not (llama.folder / "never").exists()
