"""kill -9 in mid-write and in mid-reply: what was stored stays, and the next start goes on."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.conversations import Conversations
from tests.e2e.sites import ROOT, FakeSite, fake_site
from tests.faults.requests import Caller, ready_caller

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ends processes by a signal")
SECONDS = 60.0


def pause(seconds: float) -> None:
    """The moment of the kill is the test's input, not something it waits for."""
    threading.Event().wait(seconds)


class WriterKills:
    """Kills a process that writes chats, and checks what it had said was stored."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._chance = random.Random(seed)
        self.stored: dict[int, str] = {}
        self.again: set[int] = set()
        self.changes = 0

    def kill_once(self) -> None:
        command = [sys.executable, "-m", "tests.faults.chat_writer", str(self._path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert json.loads(writer.stdout.readline()) == {"problem": ""}
            writer.stdout.readline()
            pause(self._chance.uniform(0.0, 0.08))
            writer.kill()
            for line in writer.stdout:
                if line.endswith("\n"):
                    self._heard(json.loads(line))
        self._check()

    def _heard(self, change: dict[str, Any]) -> None:
        self.changes += 1
        if "text" in change:
            self.stored[change["reply"]] = change["text"]
        elif "again" in change:
            self.again.add(change["again"])

    def _check(self) -> None:
        with closing(sqlite3.connect(self._path)) as file:
            assert file.execute("pragma integrity_check").fetchall() == [("ok",)]
            kept = dict(file.execute("select id, content from messages").fetchall())
        missing = [reply for reply, text in self.stored.items() if kept.get(reply) != text]
        assert missing == []


def kill_writers(path: Path, count: int) -> None:
    kills = WriterKills(path, seed=count)
    for _ in range(count):
        kills.kill_once()
    store = Conversations(path)
    assert store.problem == ""
    assert not any(m.streaming for chat in store.find() for m in store.messages(chat.id))
    store.close()
    print(f"{count} kills in mid-write: {kills.changes} stored changes, {len(kills.stored)} replies"
          f" ({len(kills.again)} written again), 0 lost")  # fmt: skip


def test_a_process_killed_in_mid_write_loses_nothing_it_had_stored(tmp_path: Path) -> None:
    kill_writers(tmp_path / "conversations.sqlite3", 8)


@pytest.mark.slow
def test_two_hundred_kills_in_mid_write(tmp_path: Path) -> None:
    kill_writers(tmp_path / "conversations.sqlite3", 200)


class PageKills:
    """Kills the page's process while it writes a reply: a new one, one again, an edited one."""

    def __init__(self, site: FakeSite, seed: int) -> None:
        self._site = site
        self._chance = random.Random(seed)
        self.complete: dict[int, str] = {}
        self.interrupted = 0
        self.other_versions = 0

    def run(self, count: int) -> None:
        self._site.start()
        for number in range(count):
            caller = ready_caller(self._site.port)
            assert caller.hello["problem"] is None
            conversation = self._finished_reply(caller)
            self._begin(caller, conversation, number % 3)
            pause(self._chance.uniform(0.0, 1.5))
            self._site.kill()
            self._site.start()
            self._check(Caller(self._site.port), conversation)

    def _messages(self, caller: Caller, conversation: int) -> list[dict[str, Any]]:
        opened = caller.ask("open", conversation=conversation)
        messages: list[dict[str, Any]] = opened["result"]["messages"]
        return messages

    def _answers(self, caller: Caller, conversation: int) -> list[int]:
        """All first replies of a chat, to whatever version of its first message."""
        found: list[int] = []
        for question in self._messages(caller, conversation)[0]["versions"]:
            caller.ask("select", message=question)
            found += self._messages(caller, conversation)[1]["versions"]
        return found

    def _finished_reply(self, caller: Caller) -> int:
        sent = caller.ask("send", conversation=None, text="hello")
        conversation: int = sent["result"]["conversation"]
        for _ in range(int(SECONDS / 0.05)):
            _, reply = self._messages(caller, conversation)
            if reply["details"].get("finish"):
                self.complete[reply["id"]] = reply["content"]
                return conversation
            pause(0.05)
        raise AssertionError("the reply did not end")

    def _begin(self, caller: Caller, conversation: int, how: int) -> None:
        question, reply = self._messages(caller, conversation)
        if how == 0:
            text = "go on slowly, 900 tokens"
            answer = caller.ask("send", conversation=conversation, text=text)
        elif how == 1:
            answer = caller.ask("regenerate", message=reply["id"])
        else:
            text = "slowly, 900 tokens"
            answer = caller.ask("edit", message=question["id"], text=text)
        assert "error" not in answer

    def _check(self, caller: Caller, conversation: int) -> None:
        assert caller.hello["problem"] is None
        messages = self._messages(caller, conversation)
        last = messages[-1]
        if last["details"].get("finish") != "interrupted":  # it was complete before the kill
            assert last["details"]["finish"] == "eos"
            return
        self.interrupted += 1
        assert last["content"] == "".join(token[0] for token in last["tokens"])
        known = next(
            (one for one in self._answers(caller, conversation) if one in self.complete), None
        )
        assert known is not None
        self.other_versions += known not in [message["id"] for message in messages]
        assert "error" not in caller.ask("select", message=known)
        messages = self._messages(caller, conversation)
        assert messages[1]["content"] == self.complete[messages[1]["id"]]


def kill_pages(folder: Path, count: int) -> None:
    site = fake_site(folder, 400)
    kills = PageKills(site, seed=count)
    try:
        kills.run(count)
    finally:
        site.kill()
    assert kills.interrupted > count / 4
    print(f"{count} kills of the page: {kills.interrupted} replies interrupted,"
          f" {kills.other_versions} complete ones among their versions, 0 lost")  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="the page is ended by a signal")
def test_a_page_killed_in_mid_reply_keeps_every_chat(tmp_path: Path) -> None:
    kill_pages(tmp_path, 2)


@pytest.mark.slow
def test_two_hundred_kills_of_the_page(tmp_path: Path) -> None:
    kill_pages(tmp_path, 200)
