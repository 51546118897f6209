"""The Lab on a machine that is busy otherwise: nothing is shown that cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.data.errors import EngineError
from engine.data.events import Finished, RunEvent
from engine.data.request import GenerateRequest
from engine.data.rounds import RoundSeconds, RoundTrace
from tests.app.test_lab import Page, opened
from tests.fakes_engine import FakeEngine, FakeRun

Load = Callable[[int, bool], float]
"""How many times slower a reply is, by its number and whether it drafts."""


class SlowRun(FakeRun):
    """Every second takes `slowness` seconds."""

    def __init__(self, slowness: float) -> None:
        super().__init__()
        self._slowness = slowness

    def put(self, event: RunEvent | EngineError) -> None:
        if isinstance(event, RoundTrace):
            seconds = event.seconds
            parts = (seconds.draft, seconds.target, seconds.other)
            event = replace(event, seconds=RoundSeconds(*(self._slowness * one for one in parts)))
        if isinstance(event, Finished):
            stats = event.stats
            slower = self._slowness * stats.decode_seconds
            event = replace(event, stats=replace(stats, decode_seconds=slower))
        super().put(event)


class BusyEngine(FakeEngine):
    def __init__(self, load: Load) -> None:
        super().__init__()
        self._busy = load

    def generate(self, request: GenerateRequest) -> FakeRun:
        run = SlowRun(self._busy(len(self.requests), request.drafting.speculate != "off"))
        self.requests.append(request)
        threading.Thread(target=self._play, args=(run, request), daemon=True).start()
        return run


def busy_for_plain(number: int, drafts: bool) -> float:
    return 1.0 if drafts else 9.0


def noisy(number: int, drafts: bool) -> float:
    return float(np.exp(0.8 * np.random.default_rng(number).standard_normal()))


def test_the_lab_never_shows_more_than_the_tokens_a_round_allow(tmp_path: Path) -> None:
    application = opened(BusyEngine(busy_for_plain), tmp_path)
    page = Page(application)
    page.start_lab(["ngram"], count=4)
    event = page.until("lab", "done")
    plain, drafted = event["figures"]
    assert drafted["speedup"] <= drafted["high"] <= drafted["most"] + 1e-9
    assert drafted["most"] <= drafted["mean_accepted_length"] * 1.05, "a mean over prompts"
    assert drafted["low"] < 1.0 and not drafted["settled"]
    assert event["recommended"] is None
    assert event["sentence"].startswith("Not settled: n-gram lookup, auto measured")
    assert "the clock said more than its" in event["sentence"]
    assert plain["speedup"] == pytest.approx(1.0)
    application.close()


def test_the_lab_says_how_many_prompts_would_settle_it(tmp_path: Path) -> None:
    application = opened(BusyEngine(noisy), tmp_path)
    page = Page(application)
    page.start_lab(["ngram"], count=3)
    event = page.until("lab", "done")
    plain, drafted = event["figures"]
    assert plain["plain_difference"] > 0.1
    assert not drafted["settled"] and event["recommended"] is None
    assert "would settle it" in event["sentence"] or "would not settle it" in event["sentence"]
    application.close()


def test_one_prompt_in_the_lab_settles_nothing(tmp_path: Path) -> None:
    application = opened(FakeEngine(), tmp_path)
    page = Page(application)
    page.start_lab(["ngram"], count=1)
    event = page.until("lab", "done")
    assert "on one prompt, which settles nothing" in event["sentence"]
    assert event["recommended"] is None
    application.close()
