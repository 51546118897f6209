"""A conversation file that is old, cut short or overwritten.

The program starts, says what it found, keeps the file, and loses no message that can be read.
"""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations import Conversations
from engine.data.errors import RunError

FIRST_SCHEMA = """
create table conversations (
    id integer primary key, title text not null, updated real not null,
    deleted integer not null default 0
);
create table messages (
    id integer primary key,
    conversation integer not null references conversations (id) on delete cascade,
    role text not null check (role in ('user', 'assistant')),
    content text not null, tokens text not null default '[]',
    details text not null default '{}', streaming integer not null default 0
);
create index messages_by_conversation on messages (conversation, id);
"""
CHATS, EXCHANGES = 6, 12


def text_of_message(chat: int, number: int) -> str:
    return f"chat {chat} message {number}: " + "words of it " * (40 + number)


def fill(path: Path) -> None:
    store = Conversations(path)
    for chat in range(CHATS):
        conversation = store.create(f"chat {chat}").id
        for number in range(EXCHANGES):
            store.add_user(conversation, text_of_message(chat, number))
            text = text_of_message(chat, 100 + number)
            tokens = [[word + " ", "p", None, 0.5, None, None] for word in text.split()]
            details = {"finish": "eos", "drafters": ["ngram"]}
            store.save_reply(store.start_reply(conversation), text, tokens, details, False)
    store.close()


def all_texts(store: Conversations) -> list[str]:
    chats = sorted(chat.id for chat in store.find())
    return [message.content for chat in chats for message in store.messages(chat)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "conversations.sqlite3"
    fill(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.sqlite3"


def reopened(path: Path, content: bytes) -> tuple[list[str], str]:
    """Opens a file with that content, twice: what it holds, and what was said of it."""
    path.write_bytes(content)
    store = Conversations(path)
    problem, texts = store.problem, all_texts(store)
    conversation = store.create("new").id
    assert store.add_user(conversation, "goes on") > 0
    store.set_deleted(conversation, True)
    store.close()
    again = Conversations(path)
    assert again.problem == "" and all_texts(again) == texts
    again.close()
    return texts, problem


def kept(path: Path) -> list[Path]:
    return sorted(path.parent.glob("conversations.damaged*.sqlite3"))


def test_a_sound_file_is_left_alone(path: Path, sound: bytes) -> None:
    texts, problem = reopened(path, sound)
    assert len(texts) == CHATS * EXCHANGES * 2 and problem == ""
    assert kept(path) == []


def test_what_no_database_is_is_put_aside(path: Path) -> None:
    content = b"no database, " * 1000
    texts, problem = reopened(path, content)
    assert texts == [] and "nothing could be read" in problem
    (aside,) = kept(path)
    assert str(aside) in problem and aside.read_bytes() == content


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_of_a_file_that_was_cut_short_the_beginning_is_recovered(
    path: Path, sound: bytes, share: float
) -> None:
    size = int(len(sound) * share)
    texts, problem = reopened(path, sound[:size])
    assert str(kept(path)[0]) in problem
    assert kept(path)[0].read_bytes() == sound[:size]
    whole = sum(len(text) > 50 and text.startswith("chat ") for text in texts)
    print(f"{share:.0%} of the file: {whole} of {CHATS * EXCHANGES * 2} messages recovered")
    assert whole >= CHATS * EXCHANGES * 2 * share * 0.5


@pytest.mark.parametrize("filler", [b"\x00", b"\xff"])
def test_without_its_first_page_the_rest_is_recovered(
    path: Path, sound: bytes, filler: bytes
) -> None:
    texts, _ = reopened(path, filler * 4096 + sound[4096:])
    assert len(texts) == CHATS * EXCHANGES * 2


def test_one_overwritten_page_costs_its_own_rows_only(path: Path, sound: bytes) -> None:
    pages = len(sound) // 4096
    fewest = CHATS * EXCHANGES * 2
    for page in range(1, pages, max(1, pages // 8)):
        damaged = sound[: page * 4096] + os.urandom(4096) + sound[(page + 1) * 4096 :]
        texts, _ = reopened(path, damaged)
        fewest = min(fewest, len(texts))
        for file in path.parent.iterdir():
            file.unlink()
    print(f"one page of {pages} overwritten: at least {fewest} messages recovered")
    assert fewest >= CHATS * EXCHANGES  # a page in the middle of the tree hides many at most


@pytest.mark.slow
def test_random_damage_never_keeps_it_from_starting(path: Path, sound: bytes) -> None:
    chance, counts = random.Random(1), []
    for _ in range(200):
        damaged = bytearray(sound)
        for _ in range(chance.choice([1, 3, 30, 300])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        content = bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        texts, _ = reopened(path, content)
        counts.append(len(texts))
        for file in path.parent.iterdir():
            file.unlink()
    mean = sum(counts) / len(counts)
    print(f"{len(counts)} damaged files started, {mean:.0f} of {CHATS * EXCHANGES * 2} messages")


def test_damaged_columns_cost_only_themselves(path: Path) -> None:
    fill(path)
    wrong = ["", "{", "5", "null", "[1]", '["a"]', '{"notices": 5}', "[" * 100_000, "\x00"]
    with closing(sqlite3.connect(path)) as other:
        replies = [row[0] for row in other.execute("select id from messages where role != 'user'")]
        for number, value in enumerate(wrong):
            column = "update messages set {} = ?, streaming = 1 where id = ?"
            other.execute(column.format("details"), (value, replies[number]))
            other.execute(column.format("tokens"), (value, replies[number + len(wrong)]))
        not_utf8 = "update messages set content = cast(x'68e9ff' as text) where id = ?"
        other.execute(not_utf8, (replies[-1],))
        other.commit()
    store = Conversations(path)
    assert store.problem == ""
    messages = {one.id: one for chat in store.find() for one in store.messages(chat.id)}
    for number in range(len(wrong)):
        assert messages[replies[number]].details["finish"] == "interrupted"
        traced = messages[replies[number + len(wrong)]]
        assert "".join(token[0] for token in traced.tokens) == traced.content
    assert messages[replies[-1]].content.startswith("h")
    store.close()


def first_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.execute("pragma journal_mode = wal")
        old.executescript(FIRST_SCHEMA)
        old.execute("insert into conversations values (3, 'three', 1.5, 0), (9, 'bin', 2.5, 1)")
        rows = [(5, 3, "user", "hi"), (8, 3, "assistant", "hello"), (9, 9, "user", "x")]
        insert = "insert into messages (id, conversation, role, content) values (?, ?, ?, ?)"
        old.executemany(insert, rows)
        old.commit()


def test_a_file_of_the_version_before_is_brought_up_to_date(path: Path) -> None:
    first_version(path)
    before = path.read_bytes()
    store = Conversations(path)
    assert store.problem == ""
    assert [(m.id, m.content) for m in store.messages(3)] == [(5, "hi"), (8, "hello")]
    assert [chat.title for chat in store.find()] == ["three"]
    assert store.create("new").id > 9 and store.add_user(3, "more") > 9
    store.close()
    assert (path.parent / "conversations.version-0.sqlite3").read_bytes() == before


def test_a_crash_before_the_new_file_takes_its_place_changes_nothing(path: Path) -> None:
    first_version(path)
    (path.parent / "conversations.fresh.sqlite3").write_bytes(b"half of a file")
    store = Conversations(path)
    assert [m.content for m in store.messages(3)] == ["hi", "hello"]
    store.close()


def test_copies_of_a_recovery_that_was_killed_are_removed(path: Path, sound: bytes) -> None:
    copy = path.parent / ".conversations.x7"
    copy.mkdir()
    (copy / path.name).write_bytes(sound)
    Conversations(path).close()
    assert not copy.exists()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    fill(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("pragma user_version = 99")
    before = path.read_bytes()
    with pytest.raises(RunError, match="newer Forerun"):
        Conversations(path)
    assert path.read_bytes() == before


def test_numbers_are_never_used_again(path: Path) -> None:
    store = Conversations(path)
    conversation = store.create("x").id
    first = store.add_user(conversation, "one")
    store.delete(first)
    store.close()
    again = Conversations(path)
    reply = again.start_reply(conversation)
    assert reply > first
    again.set_deleted(conversation, True)
    again.close()
    again = Conversations(path)
    fresh = again.create("y").id
    assert fresh > conversation and again.add_user(fresh, "two") > reply
    assert not again.set_deleted(conversation, False)
    again.close()
