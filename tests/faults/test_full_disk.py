"""The system refuses to write, as a full disk does, while real processes reply, fetch and train."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.sites import ROOT, FakeSite, fake_site
from tests.faults.requests import Caller, ready_caller
from tests.hub_server import HubFile, HubServer
from tests.tiny_gguf import write_tiny_gguf

if sys.platform != "win32":
    import resource

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform == "darwin", reason="sets limits of running processes"
)
POLLS, POLL_SECONDS = 600, 0.1
SECONDS = 240

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from app.__main__ import main
sys.exit(main(sys.argv[2:]))
"""


def limit(site: FakeSite, size: int) -> None:
    """No file of the page's process may grow beyond that size."""
    assert site.process is not None
    resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def reply_of(caller: Caller, conversation: int) -> dict[str, Any]:
    opened = caller.ask("open", conversation=conversation)
    reply: dict[str, Any] = opened["result"]["messages"][-1]
    return reply


def wait_until(caller: Caller, conversation: int, key: str, *, there: bool) -> dict[str, Any]:
    for _ in range(POLLS):
        reply = reply_of(caller, conversation)
        if (key in reply["details"]) == there:
            return reply
        threading.Event().wait(POLL_SECONDS)
    raise AssertionError(f"{key} of {reply['details']}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FakeSite]:
    running = fake_site(tmp_path, 400)
    running.start()
    yield running
    running.kill()


def test_a_reply_that_ends_on_a_full_disk_outlives_the_page(site: FakeSite) -> None:
    caller = ready_caller(site.port)
    sent = caller.ask("send", conversation=None, text="slowly, 60 tokens")
    conversation = sent["result"]["conversation"]
    limit(site, 0)
    reply = wait_until(caller, conversation, "finish", there=True)
    assert reply["details"]["unsaved"] and len(reply["tokens"]) == 60
    refused = caller.ask("regenerate", message=reply["id"])["error"]["message"]
    assert "could not be saved yet" in refused
    edited = caller.ask("edit", message=reply["id"] - 1, text="other")["error"]["message"]
    assert "could not be saved yet" in edited
    elsewhere = caller.ask("send", conversation=None, text="hello")["error"]
    assert elsewhere["kind"] == "StorageError" and "space" in elsewhere["message"]
    assert caller.ask("view", changes={"theme": "dark"})["error"]["kind"] == "StorageError"
    assert "still cannot be saved" in caller.ask("save_again")["error"]["message"]

    limit(site, resource.RLIM_INFINITY)
    saved = wait_until(caller, conversation, "unsaved", there=False)
    site.kill()
    site.start()
    again = reply_of(Caller(site.port), conversation)
    assert again["tokens"] == saved["tokens"] == reply["tokens"]
    assert again["details"]["finish"] == "eos"


def test_the_page_starts_on_a_full_disk_and_shows_what_there_is(site: FakeSite) -> None:
    caller = ready_caller(site.port)
    sent = caller.ask("send", conversation=None, text="hello")
    conversation = sent["result"]["conversation"]
    reply = wait_until(caller, conversation, "finish", there=True)
    long = caller.ask("send", conversation=None, text="slowly, 900 tokens")["result"]
    site.kill()
    command = site.command
    site.command = [sys.executable, "-c", FULL_START, *command[3:]]
    site.start()
    caller = ready_caller(site.port)
    assert reply_of(caller, conversation)["content"] == reply["content"]
    assert reply_of(caller, long["conversation"])["streaming"] is False
    refused = caller.ask("send", conversation=None, text="x" * 200_000)["error"]
    assert refused["kind"] == "StorageError" and "space" in refused["message"]


def test_a_disk_without_any_room_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    failed = limited(100, "--no-browser", "--data-dir", str(tmp_path))
    assert failed.returncode == 1 and "space" in failed.stderr
    assert failed.stderr.startswith("forerun: ") and failed.stderr.count("\n") == 1


FULL_START = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, resource.RLIM_INFINITY))
from tests.e2e.fake_server import main
main()
"""


def limited(size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of which no file may grow beyond that size, 0 for no limit."""
    words = [sys.executable, "-c", LIMITED, str(size or resource.RLIM_INFINITY), *arguments]
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def test_a_download_fails_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    cache, data = tmp_path / "hub", tmp_path / "data"
    with HubServer({("owner/tiny", "tiny.gguf"): HubFile(content)}) as server:
        for name, value in server.environment(cache).items():
            monkeypatch.setenv(name, value)
        arguments = ["models", "fetch", "hub:owner/tiny/tiny.gguf", "--data-dir", str(data)]
        failed = limited(20_000, *arguments)
        assert failed.returncode == 1 and failed.stderr.strip().splitlines()[-1:] != []
        assert "Traceback" not in failed.stderr and "forerun: " in failed.stderr
        files = [path for place in (cache, data) for path in place.rglob("*") if path.is_file()]
        assert [path for path in files if path.stat().st_size >= 20_000] == []
        done = limited(0, *arguments)
        assert done.returncode == 0, done.stderr
    assert content in [path.read_bytes() for path in cache.rglob("*") if path.is_file()]


def test_a_training_fails_in_one_line_and_keeps_what_was_complete(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf", layers=6, hidden=64, context=1024, seed=0)
    arguments = ["train", "collect", "--target", str(target), "--tokens", "600", "--threads", "1",
                 "--json", "--data-dir", str(tmp_path)]  # fmt: skip
    failed = limited(3_000, *arguments)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr and "forerun: " in failed.stderr
    done = limited(0, *arguments)
    assert done.returncode == 0, done.stderr
