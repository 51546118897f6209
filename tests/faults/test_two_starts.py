"""Two starts on one data folder: the second leads to the page of the first and changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.conversations import Conversations
from app.ownership import Ownership
from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from tests.e2e.sites import ROOT, free_port
from tests.faults.requests import Caller

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
SECONDS = 120


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "app", *arguments, "--data-dir", str(folder)]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


@contextmanager
def page(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The product as the user starts it, and the line with which it says that it is ready."""
    with subprocess.Popen(
        command(folder, "--no-browser", "--port", str(free_port())),
        cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def test_the_second_start_finds_the_page_and_leaves_everything_alone(tmp_path: Path) -> None:
    store = Conversations(tmp_path / "conversations.sqlite3")
    deleted = store.create("in the bin").id
    with page(tmp_path) as (_, ready):
        # Changes of a running page: what is in its bin, and a reply that is being written.
        conversation = store.create("live").id
        reply = store.start_reply(conversation)
        store.set_deleted(deleted, True)
        trainer = subprocess.Popen([sys.executable, "-c", "input()", "--data-dir", str(tmp_path)],
                                   stdin=subprocess.PIPE)  # fmt: skip
        (tmp_path / "training").mkdir(exist_ok=True)
        request = {"kind": "medusa", "target": "starter", "name": "mine"}
        job = {"request": request, "state": "running", "pid": trainer.pid, "progress": {},
               "points": [], "message": "", "card": None}  # fmt: skip
        (tmp_path / "training" / "job.json").write_text(json.dumps(job))

        second = run(tmp_path, "--no-browser")
        address = ready.split()[3]
        assert second.returncode == 0 and second.stderr == ""
        assert address in second.stdout and "running already" in second.stdout

        assert store.set_deleted(deleted, False)
        assert [message.id for message in store.messages(conversation)] == [reply]
        assert store.messages(conversation)[0].details == {}
        assert trainer.poll() is None
        listed = run(tmp_path, "models", "list")
        assert listed.returncode == 0 and "starter" in listed.stdout
        trainer.communicate(b"\n", timeout=SECONDS)
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="ends the page by a signal")
def test_a_lock_of_a_page_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    with page(tmp_path) as (process, ready):
        assert "ready" in ready
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=SECONDS)
    assert DataFolder(tmp_path).page_note.exists()  # it had no time to tidy up
    with page(tmp_path) as (_, ready):
        assert "ready" in ready


HOLD = """
import sys
from pathlib import Path
from engine.files.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.take()
print("held", flush=True)
input()
"""


@contextmanager
def holder(folder: DataFolder) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the folder and no page."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.page_lock)],
        cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path).ensure()


@pytest.mark.parametrize(
    "note",
    ["", "{", "[]", '{"pid": 7}',
     '{"pid": 7, "address": "http://127.0.0.1:9/"}', '{"pid": 7, "address": "nonsense"}',
     '{"pid": "x", "address": 5}', '{"pid": 7, "address": "http://[::1:9/"}',
     '{"pid": 7, "address": "http://127.0.0.1:99999/"}'],
)  # fmt: skip
def test_a_page_that_does_not_answer_is_one_line_of_advice(folder: DataFolder, note: str) -> None:
    if note:
        folder.page_note.write_text(note)
    with holder(folder), pytest.raises(BadOptionError, match="does not answer: end that process"):
        Ownership(folder).take(0.5)


def test_a_page_that_takes_long_to_start_is_not_to_be_ended(folder: DataFolder) -> None:
    folder.page_note.write_text('{"pid": 7, "address": ""}')
    with holder(folder), pytest.raises(BadOptionError, match=r"process 7 starts.*in a minute"):
        Ownership(folder).take(0.5)


def test_a_page_that_is_ending_is_waited_for(folder: DataFolder) -> None:
    with holder(folder) as process:
        with pytest.raises(BadOptionError):
            Ownership(folder).take(0.0)
        process.kill()
        process.wait(timeout=SECONDS)
        ours = Ownership(folder)
        assert ours.take() is None
    again = Ownership(folder)
    with pytest.raises(BadOptionError, match=f"process {os.getpid()} starts with"):
        again.take(0.0)
    ours.close()
    ours.close()
    assert not folder.page_note.exists()
    assert again.take() is None
    again.close()


def test_the_note_leads_to_the_page_only_while_it_is_locked(folder: DataFolder) -> None:
    """Another program may have got the port of a page that was killed."""
    folder.page_note.write_text(json.dumps({"pid": 1, "address": "http://127.0.0.1:1/"}))
    ours = Ownership(folder)
    assert ours.take() is None
    assert json.loads(folder.page_note.read_text()) == {"pid": os.getpid(), "address": ""}
    ours.close()


def test_two_starts_at_once_recover_a_damaged_file_once(tmp_path: Path) -> None:
    """Whichever comes first reads what is left of the chats; the other one leads to its page."""
    file = tmp_path / "conversations.sqlite3"
    store = Conversations(file)
    for number in range(200):
        store.add_user(store.create(f"chat {number}").id, "words of it " * 200)
    store.close()
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = bytes(4096)
    file.write_bytes(content)
    starts = [
        subprocess.Popen(
            command(tmp_path, "--no-browser", "--port", str(free_port())),
            cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        said = []
        for one in starts:
            assert one.stdout is not None
            said.append(one.stdout.readline())
        first, second = sorted(
            zip(said, starts, strict=True), key=lambda pair: "already" in pair[0]
        )
        assert "Forerun is ready" in first[0] and "running already" in second[0]
        assert second[1].wait(SECONDS) == 0
        problem = Caller(int(first[0].split(":")[3].split("/")[0])).hello["problem"]
    finally:
        for one in starts:
            one.kill()
            one.communicate()
    aside = sorted(path.name for path in tmp_path.glob("conversations.damaged*"))
    assert aside == ["conversations.damaged.sqlite3"] and "was damaged" in problem
    assert (tmp_path / aside[0]).read_bytes() == content
    again = Conversations(file)
    assert again.problem == "" and len(again.find()) > 150
    again.close()
