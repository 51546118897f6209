"""The search for layers to leave out: the search itself, trials on a model, the command's way."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from engine.data.prompts import BUILT_IN
from engine.data.request import DraftParams, GenerateRequest, LoadRequest
from engine.drafters.parse import parse_expression
from engine.files.measurements import Measurements
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.llama.quantize import copy_without_layers
from engine.llama.skipping import LayerSkipper
from engine.process.client import EngineClient
from engine.process.messages import LoadProgress
from engine.serving.session import Session
from engine.skip.choice import default_skip, layers_to_skip
from engine.skip.job import SearchTools, search_layers
from engine.skip.report import (
    SkipReport,
    SkipSearchRequest,
    remember_best,
    remembered_best,
)
from engine.skip.search import (
    DraftCosts,
    SearchLimits,
    SearchStoppedError,
    Skip,
    SkipSearch,
    expected_speedup,
)
from tests.engine.conftest import THREADS
from tests.tiny_gguf import write_tiny_gguf

HARM = {1: 0.3, 2: 0.02, 3: 0.05, 4: 0.01, 5: 0.2, 6: 0.04, 7: 0.15}


def worth(skip: Skip) -> float:
    """Layers that hurt one by one, and a pair that is worse than its parts suggest."""
    together = 0.3 if {2, 4} <= set(skip) else 0.0
    return max(0.0, 1.0 - sum(HARM[layer] for layer in skip) - together)


def search_of(limits: SearchLimits, tried: list[Skip], stop_after: int = 10_000) -> SkipSearch:
    def evaluate(skip: Skip) -> float:
        if len(tried) >= stop_after:
            raise SearchStoppedError
        tried.append(skip)
        return worth(skip)

    return SkipSearch(HARM, limits, evaluate)


def test_the_best_set_of_every_size_is_found() -> None:
    tried: list[Skip] = []
    search = search_of(SearchLimits(most=4, patience=60), tried)
    assert search.run()
    for count in range(1, 5):
        best = max(itertools.combinations(sorted(HARM), count), key=worth)
        assert search.value(search.best[count]) == worth(search.best[count]) == worth(best)
    assert (
        len(tried)
        == len(set(tried))
        < sum(1 for n in range(1, 5) for _ in itertools.combinations(HARM, n))
    )


def test_the_same_seed_tries_the_same_sets_and_bad_ones_end_it() -> None:
    runs: list[list[Skip]] = [[], [], []]
    for tried, seed in zip(runs, (1, 1, 2), strict=True):
        search_of(SearchLimits(most=3, patience=10, seed=seed), tried).run()
    assert runs[0] == runs[1] != runs[2]
    shallow: list[Skip] = []
    search_of(SearchLimits(most=5, patience=0, worst=0.97), shallow).run()
    assert max(map(len, shallow)) == 2


def test_a_stopped_search_keeps_the_best_so_far() -> None:
    search = search_of(SearchLimits(most=4, patience=60), [], stop_after=5)
    assert not search.run()
    assert search.best == {1: (4,)}


def test_guesses_are_tried_first_and_reach_the_run_off() -> None:
    tried: list[Skip] = []

    def evaluate(skip: Skip) -> float:
        tried.append(skip)
        return worth(skip)

    search = SkipSearch(HARM, SearchLimits(most=2, patience=5), evaluate, guesses=[(1, 5)])
    assert search.run() and tried[0] == (1, 5)
    finalists = search.finalists(2, 3)
    assert finalists[-1] == (1, 5) and finalists[0] == search.best[2] and len(finalists) == 4
    assert len(search.finalists(1, 3)) == 3


def test_expected_speedup() -> None:
    flat = {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}
    speedup, length = expected_speedup(0.9, 0.5, flat)
    assert speedup == pytest.approx(3.439 / 2.5) and length == 3
    speedup, length = expected_speedup(0.0, 0.5, flat)
    assert speedup == pytest.approx(1 / 1.5) and length == 1
    steep = {1: 1.0, 2: 2.0, 3: 3.0}
    assert expected_speedup(0.9, 0.5, steep)[0] == pytest.approx(1.9 / 2.5)
    costs = DraftCosts(flat, step=0.6, skipped=8)
    assert costs.draft_step(4) == pytest.approx(0.8)


# On a model


@pytest.fixture
def model(tmp_path: Path, library: Library) -> Iterator[Model]:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", layers=6)
    with Model(path, ModelOptions(), library.log) as model:
        yield model


@pytest.mark.parametrize("skip", [(1,), (4,), (1, 2), (2, 4), (1, 3, 4), (1, 2, 3, 4)])
def test_layers_left_out_on_trial_are_as_good_as_gone(
    model: Model, library: Library, tmp_path: Path, skip: Skip
) -> None:
    """Bit for bit what a copy without them gives."""
    copy = tmp_path / "copy.gguf"
    copy_without_layers(model.path, copy, skip, library.log)
    tokens = [5 + i % 40 for i in range(40)]
    skipper = LayerSkipper()
    options = ContextOptions(64, 20, THREADS)
    with (
        Context(model, ContextOptions(64, 20, THREADS, skipper=skipper), AbortFlag()) as trial,
        Model(copy, ModelOptions(), library.log) as without,
        Context(without, options, AbortFlag()) as expected,
    ):
        for context in (trial, expected):
            skipper.skip(skip)
            context.feed(tokens[:20])
        found = trial.extend(tokens[20:])
        skipper.require_effect()
        assert np.array_equal(found, expected.extend(tokens[20:]))


class Watched:
    """Tools of a search that is cancelled after so many sets."""

    def __init__(self, folder: Path, library: Library, sets: int = 10_000) -> None:
        self.labels: list[str] = []
        self._sets = sets
        self.tools = SearchTools(
            DataFolder(folder), AbortFlag(), library.log, self._report, self._cancelled
        )

    @property
    def tried(self) -> int:
        return sum("sets tried" in label for label in self.labels)

    def _report(self, label: str, fraction: float) -> None:
        assert 0.0 <= fraction <= 1.0
        self.labels.append(label)

    def _cancelled(self) -> bool:
        return self.tried >= self._sets


def request_for(path: Path) -> SkipSearchRequest:
    prompts = BUILT_IN[:4]
    return SkipSearchRequest(str(path), prompts, reply_tokens=8, minutes=60, most=2, threads=1)


def test_a_cancelled_search_goes_on_where_it_stopped(
    model: Model, library: Library, tmp_path: Path
) -> None:
    request = request_for(model.path)
    whole = Watched(tmp_path / "a", library)
    expected = search_layers(model.path, request, whole.tools)
    assert expected.ending == "done" and [len(one.skip) for one in expected.points] == [1, 2]
    first = Watched(tmp_path / "b", library, sets=3)
    part = search_layers(model.path, request, first.tools)
    assert (part.ending, part.tried) == ("cancelled", 3) and len(part.points) == 1
    second = Watched(tmp_path / "b", library)
    rest = search_layers(model.path, request, second.tools)
    assert second.tried == whole.tried - 3
    assert "writing the target's own text" not in second.labels
    assert rest.ending == "done"
    for found, one in zip(rest.points, expected.points, strict=True):
        assert (found.skip, found.searched) == (one.skip, one.searched)
        assert (found.agreement, found.by_category) == (one.agreement, one.by_category)
    folder = DataFolder(tmp_path / "b")
    assert list(folder.derived.iterdir()) == []
    assert rest.best is not None
    known = Measurements(folder.measurements_file)
    assert layers_to_skip("", model.path, model.layers, known) == rest.best.skip


def test_results_as_json(model: Model, library: Library, tmp_path: Path) -> None:
    watched = Watched(tmp_path / "data", library)
    report = search_layers(model.path, request_for(model.path), watched.tools)
    content = json.loads(json.dumps(report.to_json()))
    assert content["best"] in [point["skip"] for point in content["curve"]]
    assert content["layers"] == 6 and content["ending"] == "done"
    assert content["tokens_searched"] > 0 and content["tokens_checked"] > 0
    for point in content["curve"]:
        assert 0.0 <= point["agreement"] <= 1.0 and point["draft_seconds"] > 0.0
        assert set(point["by_category"]) == {"math", "writing"}


def test_early_exit_uses_what_was_found(library: Library, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", layers=6)
    folder = DataFolder(tmp_path / "data")
    remember_best(Measurements(folder.measurements_file), path, (1, 4))
    session = Session(library, folder, AbortFlag())
    texts = []
    for drafter, copies in (("early-exit", "1+4"), ("early-exit:first=3", "3+4+5")):
        session.load(
            LoadRequest(str(path), drafter, context_length=128, threads=THREADS),
            lambda _label, _fraction: None,
        )
        assert [one.name.split("skip-")[1] for one in folder.derived.glob(f"*skip-{copies}.gguf")]
        for speculate in ("off", "always"):
            request = GenerateRequest(
                raw_prompt="The old", max_tokens=12, drafting=DraftParams(speculate, 3)
            )
            *_, end = session.generate(request, lambda: False)
            texts.append(end)
    session.unload()
    assert len({str(getattr(end, "tokens", None)) for end in texts}) == 1


@pytest.mark.parametrize("content", [{}, {"skip": []}, {"skip": [9]}, {"skip": ["1"]}, {"skip": 3}])
def test_a_remembered_set_that_makes_no_sense_is_not_used(
    tmp_path: Path, content: dict[str, object]
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", layers=6)
    known = Measurements(tmp_path / "measurements.json")
    remember_best(known, path, (2,))
    assert remembered_best(known, path, 6) == (2,)
    key = next(iter(json.loads((tmp_path / "measurements.json").read_text())))
    known.put(key, content)
    assert remembered_best(known, path, 6) is None
    assert layers_to_skip("", path, 6, known) == default_skip(6)


def test_the_first_layers_alone() -> None:
    assert layers_to_skip("first=4", Path("unused"), 6, None) == (4, 5)
    assert layers_to_skip("skip=3+1", Path("unused"), 6, None) == (1, 3)
    with pytest.raises(BadOptionError, match="only 6 layers"):
        layers_to_skip("first=6", Path("unused"), 6, None)
    for wrong in ("first=", "first=0", "first=x", "last=3"):
        with pytest.raises(BadOptionError):
            parse_expression(f"early-exit:{wrong}")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: SkipSearchRequest("starter", BUILT_IN, reply_tokens=7),
        lambda: SkipSearchRequest("starter", BUILT_IN, minutes=0.0),
        lambda: SkipSearchRequest("starter", BUILT_IN, most=-1),
        lambda: SkipSearchRequest("starter", BUILT_IN[:1]),
    ],
    ids=["reply tokens", "minutes", "most", "prompts"],
)
def test_impossible_searches_are_refused(ask: Callable[[], SkipSearchRequest]) -> None:
    with pytest.raises(BadOptionError):
        ask()


def test_the_engine_process_searches(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    labels: list[str] = []
    client = EngineClient(DataFolder(tmp_path / "data"))
    try:
        report: SkipReport = client.search_layers(
            request_for(path), lambda progress: labels.append(progress.label)
        )
        assert report.ending == "done" and report.layers == 4
        assert any("sets tried" in label for label in labels)

        def interrupt(progress: LoadProgress) -> None:
            if "sets tried" in progress.label and not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt

        interrupted: list[bool] = []
        other = write_tiny_gguf(tmp_path / "other.gguf", layers=16)
        stopped = client.search_layers(
            SkipSearchRequest(str(other), BUILT_IN[:2], 8, minutes=600, threads=1), interrupt
        )
        assert stopped.ending == "cancelled"
    finally:
        client.close()
