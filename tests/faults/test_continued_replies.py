"""Replies that go on, with a real engine: stopped anywhere, its engine dead or another, refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.services import Application
from tests.faults.engine_faults import engine_process, kill
from tests.faults.engine_page import WAIT, Page, is_over, is_told, running
from tests.tiny_gguf import write_tiny_gguf

LENGTH = 60


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with running(tmp_path_factory.mktemp("continued")) as built:
        yield built


@pytest.fixture
def page(application: Application) -> Page:
    set_(application)
    return Page(application)


def set_(application: Application, **changes: Any) -> None:
    usual = {"max_tokens": LENGTH, "speculate": "always", "coupling": "seed", "seed": 7}
    usual |= {"temperature": 1.0, "overflow": "refuse"}
    application.services.preferences.set_settings(usual | changes)


def asked(page: Page, text: str = "hello") -> dict[str, Any]:
    chat = page.ask("send", conversation=None, text=text)["conversation"]
    return {"chat": chat} | page.wait(chat, is_over)


def gone_on(page: Page, reply: dict[str, Any]) -> dict[str, Any]:
    page.ask("continue", message=reply["id"])
    return page.wait(reply["chat"], is_over)


def refusal(page: Page, action: str, **arguments: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        page.ask(action, **arguments)
    return str(raised.value)


def longer_than(tokens: int) -> Callable[[dict[str, Any]], bool]:
    return lambda message: len(message["tokens"]) > tokens


def words(reply: dict[str, Any]) -> list[str]:
    return [token[0] for token in reply["tokens"]]


def test_in_pieces_it_is_the_same_reply(application: Application, page: Page) -> None:
    """Bytes are tokens here, so that most pieces end inside a character."""
    whole = asked(page)
    assert len(whole["tokens"]) == LENGTH and "\ufffd" in whole["content"]
    for piece in (7, 11):
        set_(application, max_tokens=piece)
        part = asked(page)
        while len(part["tokens"]) < LENGTH:
            part = {"chat": part["chat"]} | gone_on(page, part)
        assert words(part)[: LENGTH - 1] == words(whole)[: LENGTH - 1]
        details = part["details"]
        assert details["stats"]["emitted"] == len(part["tokens"])
        assert sum(times[0] for times in details["rounds"]) == len(part["tokens"])
        assert details["prompt_tokens"] == whole["details"]["prompt_tokens"]
        set_(application)


def test_stopped_anywhere_and_continued_twice(application: Application, page: Page) -> None:
    set_(application, max_tokens=100)
    whole = asked(page, "a long one")
    chat = page.ask("send", conversation=None, text="a long one")["conversation"]
    for least in (6, 30):
        page.wait(chat, longer_than(least))
        page.ask("stop", conversation=chat)
        half = page.wait(chat, is_over)
        assert half["has_ids"]
        page.ask("continue", message=half["id"])
    ended = page.wait(chat, is_over)
    count = min(len(ended["tokens"]), len(whole["tokens"]))
    assert words(ended)[: count - 1] == words(whole)[: count - 1]


def test_after_its_engine_died(application: Application, page: Page) -> None:
    set_(application, max_tokens=120)
    chat = page.ask("send", conversation=None, text="hello again")["conversation"]
    page.wait(chat, is_told)
    kill(engine_process())
    half = page.wait(chat, is_over)
    assert half["details"]["finish"] == "failed"
    ended = gone_on(page, {"chat": chat} | half)
    assert len(ended["tokens"]) > len(half["tokens"])
    assert words(ended)[: len(half["tokens"]) - 1] == words(half)[:-1]
    assert "error" not in ended["details"]


def test_a_full_context_says_so_or_is_trimmed(application: Application, page: Page) -> None:
    set_(application, max_tokens=5)
    chat = asked(page, "x " * 400)["chat"]
    set_(application, max_tokens=None, temperature=0.0)
    page.ask("send", conversation=chat, text="y " * 500)
    full = {"chat": chat} | page.wait(chat, is_over)
    assert full["details"]["finish"] == "context"
    stays = gone_on(page, full)
    assert stays["details"]["finish"] == "context" and stays["tokens"] == full["tokens"]
    assert "could not go on" in stays["details"]["notices"][-1]
    set_(application, max_tokens=5, temperature=0.0, overflow="trim")
    more = gone_on(page, full)
    assert len(more["tokens"]) == len(full["tokens"]) + 5
    assert any("left out" in notice for notice in more["details"]["notices"])


def test_every_rejected_draft_begins_a_version(application: Application, page: Page) -> None:
    first = asked(page, "abc " * 40)
    tried = [
        (at, number)
        for at, token in enumerate(first["tokens"])
        for number in range(len(token[6]) if len(token) > 6 else 0)
    ]
    assert tried
    set_(application, max_tokens=3)
    for at, number in tried[:5]:
        page.ask("branch", message=first["id"], token=at, ghost=number)
        other = page.wait(first["chat"], is_over)
        assert other["id"] != first["id"] and first["id"] in other["versions"]
        assert words(other)[:at] == words(first)[:at] or at == 0 or not words(first)[at - 1]
        assert other["details"]["finish"] in ("length", "eos")
    assert "not there" in refusal(page, "branch", message=first["id"], token=10**6, ghost=0)


def test_another_vocabulary_is_refused(
    application: Application, page: Page, tmp_path: Path
) -> None:
    set_(application, max_tokens=9)
    reply = asked(page)
    other = write_tiny_gguf(tmp_path / "other.gguf", tokens=("a", "b", "c", "Ċ"))
    application.services.loading.start(str(other), ())
    application.services.loading.wait(WAIT)
    assert "another vocabulary" in refusal(page, "continue", message=reply["id"])
