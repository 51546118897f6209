"""Child processes that speak JSON lines, and what else they may do."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
from pathlib import Path

import psutil
import pytest

from engine.children.json_child import ChildPlan, JsonChild
from engine.children.json_lines import Message
from engine.data.errors import EngineDiedError
from engine.downloads.transfer import DownloadEvent
from engine.train import told
from engine.train.child import Child, follow

IDLE = 2.0


def child(*how: str, idle: float | None = IDLE, errors: Path | None = None) -> JsonChild:
    command = (sys.executable, "-m", "tests.faults.odd_child", *how)
    return JsonChild(ChildPlan("odd", command, errors=errors, idle=idle))


def heard(*how: str) -> tuple[list[Message], str]:
    """All that it said, and why it ended."""
    with child(*how) as running:
        messages = list(running.messages())
        return messages, running.exit_reason()


def test_what_is_no_message_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        messages, _ = heard("garbage")
    assert messages == [{"first": 1}, {"done": True}]
    assert len(caplog.records) == 13, "every line but the empty one"
    assert max(len(record.getMessage()) for record in caplog.records) < 1_000


def test_half_a_line_is_no_message() -> None:
    assert heard("half")[0] == [{"first": 1}]


def test_a_death_is_told_with_its_last_words(tmp_path: Path) -> None:
    with child("death", errors=tmp_path / "errors.txt") as running:
        assert list(running.messages()) == [{"first": 1}]
        assert running.exit_reason() == "it died of thirst"
    assert "thirst" in (tmp_path / "errors.txt").read_text()
    assert heard("nothing") == ([], "exit code 0")


@pytest.mark.parametrize("how", ["hang", "suspension"])
def test_one_that_does_nothing_is_ended(how: str) -> None:
    messages, words = heard(how)
    assert messages == [{"first": 1}] and "did not answer" in words


def test_one_that_works_in_silence_is_not() -> None:
    assert heard("work", str(2 * IDLE))[0] == [{"done": True}]


def test_what_a_dead_child_left_behind_does_not_hold_up_the_reading() -> None:
    assert heard("orphan")[0] == [{"first": 1}]


def test_leaving_the_block_ends_everything_and_frees_what_was_open() -> None:
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for how in ("hang", "orphan", "nothing"):
        with child(how, idle=None) as running:
            process = psutil.Process(running.pid)
        running.close()
        assert not process.is_running()
    while threading.active_count() > threads:
        threading.Event().wait(0.05)
    assert len(os.listdir("/proc/self/fd")) == before


# Those who listen


@pytest.mark.parametrize(
    "message",
    [
        {}, {"done": True}, {"event": "x"}, {"event": 1}, {"event": ["done"]}, {"event": None},
        {"event": "progress", "bytes": "many"}, {"event": "progress", "bytes": True},
        {"event": "done", "path": None}, {"event": "done", "more": 1},
        {"event": "note", "message": []},
    ],
    ids=str,
)  # fmt: skip
def test_messages_of_the_wrong_shape_are_no_download_events(message: Message) -> None:
    assert DownloadEvent.from_message(message) is None


def test_a_download_event_comes_back_as_it_was() -> None:
    event = DownloadEvent("progress", 3, 5, "x", "y", "z")
    with_line = json.loads(event.to_line())
    assert DownloadEvent.from_message(with_line) == event


PROGRESS: Message = {
    "stage": "training", "done": 1, "total": 2, "seconds": 0.5, "seconds_left": None,
    "heldout": [0.5], "loss": None,
}  # fmt: skip


def test_progress_of_the_wrong_shape_is_none() -> None:
    assert told.is_progress(PROGRESS) and told.is_progress({**PROGRESS, "heldout": None})
    wrong: tuple[object, ...] = ("x", [None], ["x"], {}, True, float("nan"), [float("inf")])
    for key in PROGRESS:
        for odd in wrong:
            if not (key == "stage" and odd == "x"):
                assert not told.is_progress({**PROGRESS, key: odd}), (key, odd)
        assert not told.is_progress({name: PROGRESS[name] for name in PROGRESS if name != key})
    assert told.card_of({"done": True, "card": {"a": 1}}) == {"a": 1}
    odd_cards: tuple[Message, ...] = (
        {"done": 1, "card": {}},
        {"done": True, "card": 1},
        {"done": True},
        {},
    )
    assert [told.card_of(message) for message in odd_cards] == [None] * 4
    assert told.answer_tokens({"progress": {"answer_tokens": 7}}) == 7
    odd_counts: tuple[Message, ...] = (
        {}, {"progress": 7}, {"result": {}}, {"result": {"answer_tokens": "7"}},
    )  # fmt: skip
    assert [told.answer_tokens(message) for message in odd_counts] == [None] * 4


def test_a_trainers_child_that_ends_without_a_result_is_an_error() -> None:
    answers: queue.Queue[tuple[int, Message]] = queue.Queue()
    started = Child(("no_such_module",), {}, answers, 0)
    with pytest.raises(EngineDiedError, match=r"ended unexpectedly.*no_such_module"):
        follow([started], answers, lambda _number, _message: None, lambda: False)
