"""Files of chats that are wrong or meant to harm: refused in time, and nothing is half imported."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.conversations import Conversations
from app.exchange.importing import FoundFile, read_chats
from app.exchange.service import Exchange
from app.exchange.source import LARGEST_FILE, MOST_FILES
from app.exchange.tree import LONGEST_MESSAGE, MOST_MESSAGES
from engine.data.errors import BadOptionError

HALF = '"\\ud83d"'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Conversations]:
    opened = Conversations(tmp_path / "chats.sqlite3")
    yield opened
    opened.close()


def read(content: bytes | str) -> FoundFile:
    data = content.encode() if isinstance(content, str) else content
    return read_chats(io.BytesIO(data), "chats")


def chain(count: int, first_parent: str | None = None) -> dict[str, Any]:
    """A chat of ChatGPT's form in which each message follows the one before."""
    mapping = {
        str(place): {
            "parent": first_parent if place == 0 else str(place - 1),
            "message": {
                "author": {"role": ("user", "assistant")[place % 2]},
                "content": {"content_type": "text", "parts": [f"m{place}"]},
            },
        }
        for place in range(count)
    }
    return {"title": f"chain {count}", "mapping": mapping, "current_node": str(count - 1)}


def zip_of(entries: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return content.getvalue()


def test_a_circle_is_left_out_and_the_others_are_not() -> None:
    found = read(json.dumps([chain(6, first_parent="3"), chain(1, first_parent="0"), chain(4)]))
    assert [chat.title for chat in found.chats] == ["chain 4"]
    reason = "its messages follow each other in a circle"
    assert [one.reason for one in found.skipped] == [reason, reason]


def test_long_chains_of_every_kind_are_read_without_recursion(store: Conversations) -> None:
    content = json.dumps([chain(MOST_MESSAGES)]).encode()
    summary = Exchange(store, lambda: None).take(io.BytesIO(content), "long")
    assert (summary["messages"], summary["skipped"]) == (MOST_MESSAGES, [])
    _, text = Exchange(store, lambda: None).give(None, "json")
    assert len(json.loads("".join(text))["chats"][0]["messages"]) == MOST_MESSAGES


def test_hidden_chains_take_no_longer_than_others() -> None:
    chat = chain(MOST_MESSAGES)
    for place in range(MOST_MESSAGES // 2):
        chat["mapping"][str(place)]["message"]["author"]["role"] = "tool"
    for place in range(MOST_MESSAGES // 2, MOST_MESSAGES):
        chat["mapping"][str(place)]["parent"] = str(MOST_MESSAGES // 2 - 1)
    (read_chat,) = read(json.dumps([chat])).chats
    assert {node.parent for node in read_chat.nodes} == {None}


def test_a_hundred_thousand_messages_are_refused_with_their_number() -> None:
    found = read(json.dumps([chain(100_000), chain(2)]))
    assert [chat.title for chat in found.chats] == ["chain 2"]
    assert found.skipped[0].what == "chain 100000"
    assert found.skipped[0].reason == "it has 100,000 messages; 20,000 can be kept"


def test_an_endless_message_is_left_out() -> None:
    turn = {"from": "human", "value": "x" * (LONGEST_MESSAGE + 1)}
    found = read(json.dumps([{"conversations": [turn]}]))
    assert found.chats == [] and "2,000,001 characters" in found.skipped[0].reason


def test_a_zip_bomb_is_stopped_at_the_limit() -> None:
    packed = zip_of({f"{number}.json": b" " * (LARGEST_FILE // 2) for number in range(3)})
    assert len(packed) < 1_000_000
    with pytest.raises(BadOptionError, match="unpacks to more than 150,000,000 bytes"):
        read(packed)


def test_a_zip_that_lies_about_its_sizes_is_damaged() -> None:
    packed = bytearray(zip_of({"a.json": b"[" + b" " * 5_000_000 + b"]"}))
    at = packed.find(b"PK\x01\x02")
    packed[at + 24 : at + 28] = struct.pack("<I", 10)
    with pytest.raises(BadOptionError, match=r"damaged|no chats were found"):
        read(bytes(packed))


def test_archives_of_too_many_files_are_refused_before_their_list_is_read() -> None:
    packed = zip_of({f"{number}.json": b"" for number in range(MOST_FILES + 1)})
    with pytest.raises(BadOptionError, match="more than 10,000 files"):
        read(packed)


def with_flag(packed: bytes) -> bytes:
    content = bytearray(packed)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(mark) + offset] |= 1
    return bytes(content)


SHAREGPT = b'[{"conversations": [{"from": "human", "value": "hi"}]}]'


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"PK\x03\x04", "no list of its files"),
        (b"PK\x03\x04" + b"x" * 100, "no list of its files"),
        (zip_of({"a.json": SHAREGPT})[:-30], "damaged|no list"),
        (zip_of({"notes.txt": b"x"}), "holds no JSON"),
        (with_flag(zip_of({"a.json": SHAREGPT})), "encrypted"),
        (zip_of({"a.json": b"{", "b.json": b"\xff\xfe{"}), "not JSON.*UTF-16"),
    ],
)
def test_archives_without_readable_chats(packed: bytes, message: str) -> None:
    with pytest.raises(BadOptionError, match=message):
        read(packed)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01\x02",
        b"just text",
        b"[" * 100_000,
        b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
        b"[]",
        b"{}",
        b"null",
        b"[1, 2, 3]",
        b'{"mapping": [1]}',
        b'{"format": "forerun-chats"}',
        b'{"format": "forerun-chats", "version": true}',
        b'{"messages": []}',
        b'{"messages": [{"versions": 3}]}',
        b'{"conversations": []}',
        b'[{"conversations": "x"}]',
        b'{"type": "message"}',
        b'{"conv": 1, "messages": 2}',
        b"[1e999]",
        b"[" + b"9" * 400 + b"]",
        b'{"conversations": [{"from": "human", "value": "a"}]}\n{broken\n',
    ],
    ids=lambda content: repr(content[:30]),
)
def test_what_holds_no_chats_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(BadOptionError) as raised:
        read(content)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 600


def test_the_error_names_what_was_recognised() -> None:
    with pytest.raises(BadOptionError, match=r"JSON with the fields pages, title\. Known are Fore"):
        read('{"pages": 3, "title": "x"}')


def test_too_many_values_are_refused_before_they_are_made() -> None:
    with pytest.raises(BadOptionError, match="more values than fit into memory"):
        read(b"[" + b"[]," * 10_000_001 + b"1]")


WRONG: tuple[Any, ...] = (None, True, -1, 1.5, 2**63, "text", [None], {"a": []})
"""Each is put in the place of every value of every example in turn."""


def replaced(content: Any, value: Any) -> Iterator[Any]:
    """The content with one of its values, at any depth, changed."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, old in list(items):
        content[key] = value
        yield content
        if isinstance(old, dict | list):
            content[key] = old
            yield from replaced(old, value)
        content[key] = old


EXAMPLES = sorted((Path(__file__).parents[1] / "app" / "chat_files").glob("*.json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_no_wrong_type_gets_through(path: Path, store: Conversations) -> None:
    """It is read, left out or refused; and what is stored can be exported and read again."""
    exchange, content = Exchange(store, lambda: None), json.loads(path.read_bytes())
    whole = content if isinstance(content, list) else [content]
    taken = 0
    for value in WRONG:
        for _ in replaced(whole, value):
            try:
                exchange.take(io.BytesIO(json.dumps(whole).encode()), path.name)
            except BadOptionError:
                continue
            taken += 1
    assert taken > 100
    _, text = exchange.give(None, "json")
    again = read("".join(text))
    assert again.skipped == [] and len(again.chats) == len(store.find(limit=1_000_000))
    "".join(exchange.give(None, "markdown")[1])


def test_half_characters_are_repaired(store: Conversations) -> None:
    content = f'[{{"title": {HALF}, "conversations": [{{"from": "human", "value": {HALF}}}]}}]'
    Exchange(store, lambda: None).take(io.BytesIO(content.encode()), "x")
    (chat,) = store.find()
    assert (chat.title, store.messages(chat.id)[0].content) == ("\ufffd", "\ufffd")


def test_a_file_that_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    store = Conversations(path)
    try:
        with closing(sqlite3.connect(path)) as other:
            other.execute(
                "create trigger refuse before insert on messages when new.content = 'm2'"
                " begin select raise(abort, 'no room'); end"
            )
            other.commit()
        content = json.dumps([chain(2), chain(3)]).encode()
        with pytest.raises(sqlite3.Error, match="no room"):
            Exchange(store, lambda: None).take(io.BytesIO(content), "x")
        assert store.find() == ()
        assert take_again(store) == 1
    finally:
        store.close()


def take_again(store: Conversations) -> int:
    content = json.dumps([chain(2)]).encode()
    chats: int = Exchange(store, lambda: None).take(io.BytesIO(content), "x")["chats"]
    return chats
