"""What is measured and learned of a pair is kept, and used at the next load."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli import main
from engine.control.cost import CostModel
from engine.data.draft_cost import DraftCost
from engine.data.folders import DataFolder
from engine.data.request import DraftParams, GenerateRequest, LoadRequest
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.measure.calibrate import Calibration, calibrate, measure_passes
from engine.process.client import EngineClient
from engine.serving.setups import SetupTrial, fastest, thread_counts
from engine.serving.tuning import Setup, chat_seconds
from tests.tiny_gguf import write_tiny_gguf


@pytest.fixture
def tiny_context(tmp_path: Path, library: Library) -> Iterator[Context]:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    with Model(path, ModelOptions(), library.log) as model:
        options = ContextOptions(256, 16, threads=1)
        with Context(model, options, AbortFlag()) as context:
            yield context


def calibration(plain: float, prefill: float) -> Calibration:
    return Calibration({1: plain, 4: 3 * plain}, {1: 1e-5}, prefill)


def test_a_calibration_survives_the_file() -> None:
    known = calibration(0.03, 80.0)
    assert Calibration.from_json(json.loads(json.dumps(known.to_json()))) == known


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"passes": {"2": 1.0}, "growth": {}, "prefill": 1.0},
        {"passes": {"1": 0.0}, "growth": {}, "prefill": 1.0},
        {"passes": {"1": "x"}, "growth": {}, "prefill": 1.0},
    ],
)
def test_what_is_no_calibration_is_refused(content: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        Calibration.from_json(content)


def test_a_slower_machine_keeps_its_proportions() -> None:
    slower = calibration(0.03, 80.0).scaled(2.0)
    assert slower == Calibration({1: 0.06, 4: 0.18}, {1: 2e-5}, 40.0)


def test_the_usual_setup_stays_unless_another_is_clearly_faster() -> None:
    usual = SetupTrial(Setup(2), calibration(0.034, 75.0))
    slightly = SetupTrial(Setup(2, repack=False), calibration(0.0335, 76.0))
    clearly = SetupTrial(Setup(2, repack=False), calibration(0.034, 147.0))
    assert fastest([usual, slightly]) == usual.setup
    assert fastest([usual, slightly, clearly]) == clearly.setup
    assert chat_seconds(clearly.calibration) < chat_seconds(usual.calibration)


def test_thread_counts_begin_with_the_usual_one() -> None:
    counts = thread_counts(4)
    assert counts[0] == 4 and 3 in counts and len(counts) == len(set(counts))
    assert 0 not in thread_counts(1)


def test_a_context_is_measured_and_left_empty(tiny_context: Context) -> None:
    shares: list[float] = []
    found = calibrate(tiny_context, thorough=False, report=shares.append)
    assert tiny_context.tokens == []
    assert 1 in found.passes and all(seconds > 0.0 for seconds in found.passes.values())
    assert found.prefill > 0.0 and shares == sorted(shares)
    assert max(found.passes) <= tiny_context.options.max_rows
    assert all(seconds >= 0.0 for seconds in found.per_cached.values())


def test_time_is_given_only_as_far_as_passes_disagree(tiny_context: Context) -> None:
    """A clock of the test's own: every pass takes as long, so the fewest repeats are enough."""
    ticks = iter(range(10_000))
    found = calibrate(
        tiny_context, thorough=True, report=lambda _: None, clock=lambda: next(ticks) / 1024
    )
    assert set(found.passes.values()) == {1 / 1024}
    widths, few = len(found.passes), len(found.per_cached)
    # Two readings a pass, three passes a width and two where much is cached, and the checks.
    assert next(ticks) <= 2 * (3 * widths + 2 * few) + 20


def test_passes_of_given_widths(tiny_context: Context) -> None:
    assert set(measure_passes(tiny_context, (1, 2), 1)) == {1, 2}


def test_measured_costs_of_a_drafter_are_used_before_it_drafts() -> None:
    cost = CostModel({1: 1.0}, drafters={"m": DraftCost(0.25, 0.05)})
    assert (cost.draft_seconds("m"), cost.token_seconds("m")) == (0.25, 0.05)


def tiny_pair(folder: Path) -> tuple[str, str]:
    target = write_tiny_gguf(folder / "target.gguf", layers=4)
    drafter = write_tiny_gguf(folder / "drafter.gguf", layers=1)
    return str(target), f"model:{drafter}"


def test_a_pair_is_measured_once_and_remembers_what_it_learned(tmp_path: Path) -> None:
    target, drafter = tiny_pair(tmp_path)
    folder = DataFolder(tmp_path / "data")
    request = LoadRequest(target, drafter, context_length=256)
    drafting = DraftParams(speculate="auto")
    with contextlib.closing(EngineClient(folder)) as client:
        speed = client.load(request).speed
        assert speed is not None and speed.drafters[0].name == drafter
        measured = json.loads(folder.measurements_file.read_text())
        list(
            client.generate(
                GenerateRequest(raw_prompt="a b c", max_tokens=40, drafting=drafting)
            ).events()
        )
        learned = json.loads(folder.learned_file.read_text())
    assert any(f"greedy {drafter}" in pair["accounts"] for pair in learned.values())
    with contextlib.closing(EngineClient(folder)) as client:
        again = client.load(request).speed
    assert again is not None and set(again.passes) == set(speed.passes)
    assert json.loads(folder.measurements_file.read_text()) == measured


def test_calibrate_tells_what_pays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, drafter = tiny_pair(tmp_path)
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("one two three", encoding="utf-8")
    command = ["calibrate", "--target", target, "--drafter", drafter, "--ctx", "256"]
    where = ["--data-dir", str(tmp_path / "data"), "--prompt-file", str(prompt)]
    assert main([*command, *where, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["pass_seconds"]["16"] > 0.0 and shown["prefill_tokens_per_second"] > 0.0
    (speed,) = shown["drafters"]
    assert speed["step"] > 0.0 and "drafting with" in speed["advice"].lower()
    assert [even["length"] for even in speed["break_evens"]] == [1, 2, 3, 4, 6, 8]
    assert shown["measured_low"] <= shown["measured"] <= shown["measured_high"]
    assert shown["measured"] > 0.0 and shown["plain_difference"] >= 0.0 and "predicted" in shown


def test_calibrate_does_not_show_a_text_to_a_drafter_that_remembers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, _ = tiny_pair(tmp_path)
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("one two three", encoding="utf-8")
    command = ["calibrate", "--target", target, "--drafter", "recycle", "--ctx", "256"]
    where = ["--data-dir", str(tmp_path / "data"), "--prompt-file", str(prompt)]
    assert main([*command, *where]) == 0
    assert "on this text: nothing predicted, measured" in capsys.readouterr().out


def test_calibrate_predicts_only_for_a_drafter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("text", encoding="utf-8")
    assert main(["calibrate", "--target", "starter", "--prompt-file", str(prompt)]) == 2
    assert "--drafter" in capsys.readouterr().err
