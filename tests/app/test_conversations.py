"""The conversation file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversations import Conversations

TOKENS: list[list[Any]] = [
    ["Hi", "a", 0, 0.5, None, 1],
    ["!", "c", None, 0.9, None, None, [["x", 0, 0.1, 0.2, 2]]],
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "chats.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[Conversations]:
    opened = Conversations(path)
    yield opened
    opened.close()


def test_a_reply_comes_back_with_its_trace_and_figures(store: Conversations, path: Path) -> None:
    conversation = store.create("hello there").id
    store.add_user(conversation, "hello there")
    reply = store.start_reply(conversation)
    store.save_reply(reply, "Hi!", TOKENS, {"finish": "eos", "drafters": ["ngram"]}, False)
    again = Conversations(path)
    user, answer = again.messages(conversation)
    again.close()
    assert (user.role, user.content) == ("user", "hello there")
    assert answer.tokens == TOKENS
    assert answer.details == {"finish": "eos", "drafters": ["ngram"]}
    assert not answer.streaming


def test_a_reply_cut_off_by_a_crash_is_marked(store: Conversations, path: Path) -> None:
    conversation = store.create("x").id
    reply = store.start_reply(conversation)
    store.save_reply(reply, "Hi", TOKENS[:1], {"drafters": ["ngram"]}, streaming=True)
    again = Conversations(path)
    (message,) = again.messages(conversation)
    again.close()
    assert message.details == {"drafters": ["ngram"], "finish": "interrupted"}
    assert message.tokens == TOKENS[:1]
    assert not message.streaming


@pytest.mark.parametrize(
    ("text", "title"),
    [("  two\n words ", "two words"), ("", "New chat"), ("w" * 80, "w" * 60 + "…")],
)
def test_titles_come_from_the_first_message(store: Conversations, text: str, title: str) -> None:
    assert store.create(text).title == title


def test_search_takes_wildcards_literally(store: Conversations) -> None:
    percent = store.create("100% sure").id
    store.create("100 of them")
    quiet = store.create("another").id
    store.add_user(quiet, "speaks of a_b")
    assert [found.id for found in store.find("0%")] == [percent]
    assert [found.id for found in store.find("a_b")] == [quiet]
    assert [found.id for found in store.find("a_h")] == []
    assert len(store.find()) == 3


def test_newest_first_and_a_message_makes_new(store: Conversations) -> None:
    first, second = store.create("first").id, store.create("second").id
    assert [found.id for found in store.find()] == [second, first]
    store.add_user(first, "again")
    assert [found.id for found in store.find()] == [first, second]


def test_deleting_can_be_undone_until_the_next_start(store: Conversations, path: Path) -> None:
    conversation = store.create("x").id
    store.add_user(conversation, "x")
    store.set_deleted(conversation, True)
    assert store.find() == () and not store.exists(conversation)
    store.set_deleted(conversation, False)
    assert store.exists(conversation)
    store.set_deleted(conversation, True)
    again = Conversations(path)
    assert again.messages(conversation) == ()
    again.close()


def test_deleting_a_message_takes_what_follows_until_the_next_start(
    store: Conversations, path: Path
) -> None:
    conversation = store.create("x").id
    ids = [store.add_user(conversation, str(number)) for number in range(4)]
    other = store.add_user(store.create("y").id, "stays")
    assert store.count_below(ids[2]) == 2
    assert store.delete(ids[2]) == 2
    assert [message.id for message in store.messages(conversation)] == ids[:2]
    assert store.conversation_of(other) is not None
    assert store.conversation_of(ids[3]) is None
    assert store.restore(ids[3]) is None  # it went along with the one before it
    assert store.restore(ids[2]) == conversation
    assert [message.id for message in store.messages(conversation)] == ids
    store.delete(ids[2])
    again = Conversations(path)
    assert again.restore(ids[2]) is None
    assert [message.id for message in again.messages(conversation)] == ids[:2]
    again.close()


def test_a_change_that_fails_half_way_loses_nothing(store: Conversations) -> None:
    conversation = store.create("hello").id
    store.add_user(conversation, "hello")
    reply = store.start_reply(conversation)
    store.save_reply(reply, "the old reply", [], {}, streaming=False)

    with pytest.raises(sqlite3.IntegrityError), store.atomic():
        store.delete(reply)
        store.start_reply(conversation + 1)  # no such conversation

    kept = [message.content for message in store.messages(conversation)]
    assert kept == ["hello", "the old reply"]
    store.add_user(conversation, "and on")  # the file is not left inside the failed change


def test_texts_of_other_chats_are_the_newest_that_fit(store: Conversations) -> None:
    first, second, third = (store.create(title).id for title in ("a", "b", "c"))
    store.add_user(first, "one")
    store.add_user(second, "two")
    store.save_reply(store.start_reply(first), "three", [], {}, streaming=False)
    store.save_reply(store.start_reply(first), "half", [], {}, streaming=True)
    store.add_user(third, "deleted")
    store.set_deleted(third, True)
    assert store.texts_of_others(second, 1000) == ("one", "three")
    assert store.texts_of_others(third, 1000) == ("one", "two", "three")
    assert store.texts_of_others(third, 8) == ("two", "three")
    assert store.texts_of_others(first, 2) == ()
