"""Whether a training will pay, from measured passes and the weights of the drafter to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.data.folders import DataFolder
from engine.files.gguf import inspect
from engine.files.gguf_header import read_header
from engine.files.measurements import Measurements, measurement_key
from engine.models.locate import LocatedModel
from engine.train.curves import CURVES, Curve
from engine.train.forecast import (
    Forecast,
    TrainingBudget,
    curve_for,
    drafter_bytes,
    expected_hits,
    forecast,
    layer_parameters,
    target_forecast,
    tokens_in,
)
from engine.train.training import HeadKind, TrainSettings
from tests.tiny_gguf import write_tiny_gguf

FREE = {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.1, 5: 0.1, 8: 0.1}
DEAR = {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5, 8: 0.8}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "t.gguf", layers=6, hidden=64)


@pytest.mark.parametrize("curve", [curve for kind in CURVES.values() for curve in kind.values()])
def test_more_data_is_right_more_often_and_less_far_ahead(curve: Curve) -> None:
    firsts = [expected_hits(curve, tokens)[0] for tokens in (1_000, 30_000, 70_000, 10**6, 10**9)]
    assert firsts == sorted(firsts) and firsts[-2] == firsts[-1] > 2 * firsts[0]
    for hits in curve.values():
        assert len(hits) == 4 and 0.0 < min(hits) and max(hits) < 0.7


def test_the_curve_is_of_the_target_nearest_in_size() -> None:
    small, large = sorted(CURVES["medusa"])
    assert curve_for("medusa", 10**6) is curve_for("medusa", small) is CURVES["medusa"][small]
    assert curve_for("medusa", 8 * 10**9) is CURVES["medusa"][large]
    assert curve_for("early-exit", 8 * 10**9) is curve_for("early-exit", small)


def test_between_points_the_curve_follows_the_logarithm() -> None:
    curve = curve_for("eagle3", 10**8)
    (low, below), (high, above) = sorted(curve.items())[:2]
    middle = expected_hits(curve, round((low * high) ** 0.5))
    assert middle[0] == pytest.approx((below[0] + above[0]) / 2, abs=1e-4)


@pytest.mark.parametrize("kind", CURVES)
def test_it_pays_where_wider_passes_are_free(kind: HeadKind, target: Path) -> None:
    info = inspect(target)
    dear = forecast(kind, 100_000, info, DEAR, TrainSettings())
    assert (dear.length, dear.speedup, dear.pays) == (0, 1.0, False)
    assert "not pay" in dear.sentence
    # A step as dear as its share of the weights of so tiny a target would hide what passes cost.
    cheap = forecast(
        kind, 100_000, replace(info, bytes=10**12, parameters=10**12), FREE, TrainSettings()
    )
    hits = expected_hits(curve_for(kind, 10**12), 100_000)
    path, expected = 1.0, 1.0
    for hit in hits:
        path *= hit
        expected += path
    assert cheap.speedup == pytest.approx(expected, rel=0.01)
    assert cheap.length == len(hits) and f"{cheap.speedup:.2f} times" in cheap.sentence


def test_fewer_positions_promise_less(target: Path) -> None:
    info = replace(inspect(target), bytes=10**12, parameters=10**12)
    gains = [
        forecast("medusa", 100_000, info, FREE, TrainSettings(positions=n)).speedup for n in (1, 4)
    ]
    assert 1.0 < gains[0] < gains[1]


def test_layers_are_counted_as_the_file_has_them(target: Path) -> None:
    tensors = read_header(target).tensors
    shapes = [tensor.shape for tensor in tensors if tensor.name.startswith("blk.0.")]
    matrices = sum(a * b for a, b in (shape for shape in shapes if len(shape) == 2))
    assert layer_parameters(inspect(target)) == matrices


def test_a_larger_drafter_costs_more(target: Path) -> None:
    info = inspect(target)
    kinds: tuple[HeadKind, ...] = ("medusa", "eagle3", "early-exit")
    small, large = TrainSettings(1, 16, keep_layers=1), TrainSettings(8, 256, keep_layers=5)
    for kind in kinds:
        assert 0 < drafter_bytes(kind, info, small) < drafter_bytes(kind, info, large)


def test_only_a_measured_target_has_a_forecast(target: Path, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    model = LocatedModel("tiny", "Tiny", target)

    def asked(budget: TrainingBudget) -> Forecast | None:
        return target_forecast("medusa", model, "0" * 64, folder, budget, TrainSettings())

    assert asked(TrainingBudget(30)) is None
    measurements = Measurements(folder.measurements_file)
    passes = {"passes": {"1": 0.1, "2": 0.1}, "growth": {}, "prefill": 20.0}
    slower = {"passes": {"1": 0.1, "2": 0.5}, "growth": {}, "prefill": 20.0}
    measurements.put(measurement_key("passes", target, "two"), passes)
    measurements.put(measurement_key("passes", target, "one"), slower)
    measurements.put(measurement_key("passes", target, "two"), passes)
    found = asked(TrainingBudget(30))
    assert found is not None and found.speedup > 1.0
    assert found.tokens == tokens_in(0.55 * (30 * 60 - 60), {1: 0.1, 2: 0.1}, 0)
    exact = target_forecast(
        "medusa", model, "0" * 64, folder, TrainingBudget(0, 777), TrainSettings()
    )
    assert exact is not None and exact.tokens == 777
