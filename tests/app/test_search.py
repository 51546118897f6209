"""Search in the conversation file, whatever the case and the age of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversations import Conversations
from app.search import fold


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[Conversations]:
    opened = Conversations(path)
    yield opened
    opened.close()


CASES = [
    ("Straße", "STRASSE"),
    ("ẞ", "ß"),
    ("Москва, Ёлка", "МОСКВА, ЁЛКА"),
    ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
    ("οδός", "ΟΔΟΣ"),
    ("ᾳδης", "ᾼΔΗΣ"),
    ("İstanbul", "istanbul"),
    ("ısparta", "ISPARTA"),
    ("É", "e\u0301"),
    ("ÅNGSTRÖM", "a\u030angstro\u0308m"),
    ("ﬁne", "FINE"),
    ("ქართული", "ᲥᲐᲠᲗᲣᲚᲘ"),
    ("ꭰ", "Ꭰ"),
    ("ⴀ", "Ⴀ"),
    ("𐐨", "𐐀"),
    ("ǆ", "ǅ"),
]


@pytest.mark.parametrize(("one", "other"), CASES)
def test_cases_of_every_script_are_the_same(store: Conversations, one: str, other: str) -> None:
    in_text, in_title = store.create("x").id, store.create(f"about {other}").id
    store.add_user(in_text, f"before {one} after")
    for wanted in (one, other):
        assert {found.id for found in store.find(wanted)} == {in_text, in_title}


@pytest.mark.parametrize(
    ("one", "other"), [("й", "и"), ("が", "か"), ("é", "e"), ("ñ", "n"), ("क", "कि")]
)
def test_letters_that_differ_in_more_than_case_stay_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_a_reply_is_found_while_it_is_written_and_after(store: Conversations) -> None:
    conversation = store.create("x").id
    reply = store.start_reply(conversation)
    for text, streaming in (("Begun with ÄPFEL", True), ("Begun with BIRNEN", False)):
        store.save_reply(reply, text, [], {}, streaming)
        assert [found.id for found in store.find(text.lower())] == [conversation]
    assert store.find("äpfel") == ()


def test_what_is_gone_is_not_found(store: Conversations) -> None:
    conversation = store.create("x").id
    message = store.add_user(conversation, "Zebra")
    assert len(store.find("zebra")) == 1
    store.delete(message)
    assert store.find("zebra") == ()
    store.add_user(conversation, "quagga")
    assert store.find("zebra") == () and len(store.find("QUAGGA")) == 1


def test_a_file_of_an_earlier_version_is_searched(path: Path) -> None:
    opened = Conversations(path)
    conversation = opened.create("x").id
    opened.add_user(conversation, "ΟΔΟΣ")
    opened.close()
    with sqlite3.connect(path) as earlier:
        earlier.execute("drop table folded_messages")
    earlier.close()
    again = Conversations(path)
    assert [found.id for found in again.find("οδός")] == [conversation]
    again.close()


def test_search_goes_on_where_nothing_can_be_written(path: Path, store: Conversations) -> None:
    conversation = store.create("x").id
    store.add_user(conversation, "ΟΔΟΣ")
    with sqlite3.connect(path) as other:
        other.execute(
            "create trigger full before insert on folded_messages"
            " begin select raise(abort, 'database or disk is full'); end"
        )
    other.close()
    assert [found.id for found in store.find("οδός")] == [conversation]


def test_pages_of_a_long_list(store: Conversations) -> None:
    ids = [store.create(f"Chat {number}").id for number in range(30)]
    assert [found.id for found in store.find("cHAT", 7)] == ids[:-8:-1]
    assert len(store.find("chat", 100)) == 30
