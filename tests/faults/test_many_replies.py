"""Many replies in one engine: nothing grows that should not."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil
import pytest

from engine.data.folders import DataFolder
from engine.data.request import DraftParams, LoadRequest, SamplingParams
from engine.process.client import EngineClient
from tests.engine.runs import raw
from tests.faults.engine_faults import end_of
from tests.tiny_gguf import write_tiny_gguf

DRAFTER = "first(ngram,early-exit:skip=3)"


@dataclass(frozen=True, slots=True)
class Usage:
    """Of the engine and of this process. files: in the data folder and the temporary folder."""

    engine_mb: float
    engine_descriptors: int
    engine_threads: int
    own_mb: float
    own_descriptors: int
    own_threads: int
    files: int

    @staticmethod
    def of(pid: int, folder: Path) -> Usage:
        figures: list[float] = []
        for process in (psutil.Process(pid), psutil.Process()):
            figures += [process.memory_info().rss / 1e6, process.num_fds(), process.num_threads()]
        engine_mb, engine_fds, engine_threads, own_mb, own_fds, own_threads = figures
        files = sum(1 for _ in folder.rglob("*"))
        return Usage(
            engine_mb, int(engine_fds), int(engine_threads), own_mb, int(own_fds),
            int(own_threads), files,
        )  # fmt: skip


def usage_over(
    folder: Path, replies: int, every: int, show: Callable[[int, Usage], None]
) -> list[Usage]:
    """Replies of every kind: greedy and sampled, plain and drafted, stopped, refused."""
    model = write_tiny_gguf(folder / "tiny.gguf", layers=8, context=512)
    client = EngineClient(DataFolder(folder / "data"))
    client.load(LoadRequest(str(model), DRAFTER, threads=1))
    seen: list[Usage] = []
    pid = client.pid
    assert pid is not None
    for number in range(1, replies + 1):
        drafting = DraftParams(("auto", "always", "off")[number % 3])
        sampling = SamplingParams(temperature=float(number % 2), seed=number)
        text = "x" * 2_000 if number % 50 == 0 else f"the {number} the the {number}"
        run = client.generate(raw(text, 24, drafting=drafting, sampling=sampling))
        if number % 10 == 0:
            run.cancel()
        finish, _, _ = end_of(run)
        assert finish in ("length", "eos", "cancelled", "ContextLengthError"), finish
        if number % every == 0:
            seen.append(Usage.of(pid, folder))
            show(number, seen[-1])
    assert client.pid == pid, "one engine wrote all of them"
    client.close()
    return seen


def assert_flat(first: Usage, last: Usage, megabytes: float) -> None:
    assert last.engine_mb - first.engine_mb < megabytes
    assert last.own_mb - first.own_mb < megabytes
    assert last.engine_descriptors <= first.engine_descriptors
    assert last.own_descriptors <= first.own_descriptors
    assert last.engine_threads <= first.engine_threads
    assert last.own_threads <= first.own_threads
    assert last.files <= first.files


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the folder whose files are counted."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_hundred_replies(tmp_path: Path) -> None:
    first, last = usage_over(tmp_path, 100, 50, lambda _number, _usage: None)
    assert_flat(first, last, 20.0)


@pytest.mark.slow
def test_a_thousand_replies(tmp_path: Path) -> None:
    print("\nreplies  engine MB fds threads   own MB fds threads   files")

    def show(number: int, usage: Usage) -> None:
        engine, own = astuple(usage)[:3], astuple(usage)[3:6]
        shown = "   ".join(f"{mb:9.1f} {fds:3} {threads:3}" for mb, fds, threads in (engine, own))
        print(f"{number:7}  {shown}   {usage.files:6}")

    seen = usage_over(tmp_path, 1_000, 100, show)
    assert_flat(seen[0], seen[-1], 20.0)
