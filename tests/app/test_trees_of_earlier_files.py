"""Files of the version before: their chats become trees, and nothing they held is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.chat_file import open_chat_file
from app.chat_schema import VERSION
from app.conversations import Conversations
from app.exchange.chat_rows import read_chat
from tests.app.earlier_chats import EarlierFile
from tests.e2e.sites import ROOT

LINE = [(1, "user", "a"), (2, "assistant", "b"), (3, "user", "c"), (4, "assistant", "d")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.sqlite3"


def shape(path: Path, chat: int) -> dict[str, str | None]:
    """Text of every message to the text of the one it follows."""
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute(
            "select m.content, p.content from messages m left join messages p on p.id = m.parent"
            " where m.conversation = ?",
            (chat,),
        ).fetchall()
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def opened(path: Path) -> Conversations:
    store = Conversations(path)
    assert store.problem == ""
    return store


def test_a_chat_keeps_its_path_and_its_numbers(path: Path) -> None:
    file = EarlierFile(path)
    file.chat(1, LINE)
    file.chat(2, [(5, "user", "other")])
    file.chat(3, [])
    store = opened(path)
    assert [(one.id, one.content) for one in store.messages(1)] == [(i, t) for i, _, t in LINE]
    assert [one.parent for one in store.messages(1)] == [None, 1, 2, 3]
    assert [one.content for one in store.messages(2)] == ["other"]
    assert store.messages(3) == () and store.current(3) is None
    assert store.add_user(3, "fresh") == 6
    store.close()
    with closing(sqlite3.connect(path.with_name("conversations.version-1.sqlite3"))) as copy:
        assert copy.execute("select count(*) from messages").fetchone() == (5,)
        assert copy.execute("pragma user_version").fetchone() == (1,)
    with closing(sqlite3.connect(path)) as changed:
        assert changed.execute("pragma user_version").fetchone() == (VERSION,)
        names = {row[0] for row in changed.execute("select name from sqlite_schema")}
    assert "replaced" not in names


def test_what_replies_had_replaced_become_versions(path: Path) -> None:
    """Reply 6 took the place of 4 and what followed; 9 answers 8, an edit of 3; 6 was replaced by
    9 along with the message it answered."""
    file = EarlierFile(path)
    file.chat(1, [*LINE[:2], (8, "user", "c edited"), (9, "assistant", "d third")])
    file.replaced(6, 1, [(4, "assistant", "d"), (5, "user", "e")])
    file.replaced(9, 1, [(3, "user", "c"), (6, "assistant", "d again")])
    store = opened(path)
    assert [one.content for one in store.messages(1)] == ["a", "b", "c edited", "d third"]
    assert [one.versions for one in store.messages(1)] == [(1,), (2,), (3, 8), (9,)]
    store.select(3)
    assert [one.content for one in store.messages(1)] == ["a", "b", "c", "d again"]
    assert store.messages(1)[-1].versions == (4, 6)
    store.select(4)
    assert [one.content for one in store.messages(1)] == ["a", "b", "c", "d", "e"]
    store.close()


def test_what_was_replaced_of_nothing_known_is_there_still(path: Path) -> None:
    file = EarlierFile(path)
    file.chat(1, LINE[:2])
    file.replaced(77, 1, [(3, "user", "x"), (4, "assistant", "y")])
    store = opened(path)
    store.close()
    assert shape(path, 1) == {"a": None, "b": "a", "x": None, "y": "x"}


def node(identity: int, parent: int | None, role: str, content: str) -> dict[str, object]:
    return {"id": identity, "parent": parent, "role": role, "content": content,
            "reasoning": "", "time": 5.0, "model": "m", "tokens": [], "details": {}}  # fmt: skip


def test_imported_branches_become_rows(path: Path) -> None:
    file = EarlierFile(path)
    file.chat(1, LINE)
    first = {
        "id": 2,
        "parent": 1,
        "time": 1_700_000_000.0,
        "others": [
            node(1, None, "system", "be brief"),
            node(6, 5, "assistant", "late"),
            node(5, 2, "user", "aside"),
        ],
        "chat": {"created": 9.0, "details": {"from": "elsewhere"}},
    }
    file.details(1, {"tree": first})
    file.details(2, {"tree": {"id": 3, "parent": 2, "reasoning": "hm"}, "model": "m", "kept": 1})
    store = opened(path)
    assert [one.content for one in store.messages(1)] == ["a", "b", "c", "d"]
    begin, reply = store.messages(1)[:2]
    assert (begin.created, begin.details) == (1_700_000_000.0, {})
    assert (reply.reasoning, reply.details) == ("hm", {"model": "m", "kept": 1})
    with store.reading() as connection:
        tree = read_chat(connection, 1)
    store.close()
    assert shape(path, 1) == {
        "a": None, "b": "a", "c": "b", "d": "c", "aside": "a", "late": "aside"
    }  # fmt: skip
    assert tree is not None and tree.created == 9.0 and tree.details == {"from": "elsewhere"}
    assert (tree.nodes[0].role, tree.nodes[0].content) == ("system", "be brief")


def test_a_long_chat_grows_into_one_path(path: Path) -> None:
    """Chains of thousands are where cascades of deletions give up."""
    file = EarlierFile(path)
    file.chat(1, [(n, "user" if n % 2 else "assistant", f"m{n}") for n in range(1, 5001)])
    store = opened(path)
    assert len(store.messages(1)) == 5000
    assert store.delete(2) == 4999
    assert [one.content for one in store.messages(1)] == ["m1"]
    store.close()
    again = opened(path)
    assert again.restore(2) is None
    again.set_deleted(1, True)
    again.close()
    opened(path).close()
    assert shape(path, 1) == {}


def test_a_message_whose_parent_is_lost_follows_the_one_before(path: Path) -> None:
    store = opened(path)
    chat = store.create("x").id
    for number in range(4):
        store.add_user(chat, str(number))
    store.add_user(chat, "another start", None)
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("delete from messages where content = '2'")
        file.execute("pragma user_version = 1")  # as a file that has to be built anew
    store = opened(path)
    store.close()
    assert shape(path, chat) == {"0": None, "1": "0", "3": "1", "another start": None}


def test_a_message_whose_parent_is_lost_does_not_follow_a_deleted_one(path: Path) -> None:
    """The next start empties the bin: what hung on something in it would be in the way."""
    store = opened(path)
    chat = store.create("x").id
    question = store.add_user(chat, "question")
    kept = store.add_reply(chat, question, "kept", [], {})
    binned = store.add_reply(chat, question, "binned", [], {})
    store.select(kept)
    store.add_user(chat, "on")
    store.delete(binned)
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("delete from messages where content = 'kept'")
        file.execute("pragma user_version = 1")
    store = opened(path)
    assert [one.content for one in store.messages(chat)] == ["question", "on"]
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="ends a process by a signal")
@pytest.mark.parametrize("copied", [1, 40, 200])
def test_a_start_that_is_killed_in_the_middle_is_made_up_for(path: Path, copied: int) -> None:
    """copied: rows, after which it ends."""
    file = EarlierFile(path)
    file.chat(1, [(n, "user", f"m{n}") for n in range(1, 201)])
    script = (
        "import os, sqlite3, sys\n"
        "from pathlib import Path\n"
        "import app.chat_salvage as salvage\n"
        "from app.chat_file import open_chat_file\n"
        "store, seen = salvage._store, []\n"
        "def counting(*arguments):\n"
        "    seen.append(1)\n"
        f"    if len(seen) > {copied}: os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
        "    store(*arguments)\n"
        "salvage._store = counting\n"
        "open_chat_file(Path(sys.argv[1]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    opened_file = open_chat_file(path)
    assert opened_file.problem == ""
    opened_file.connection.close()
    assert len(shape(path, 1)) == 200
    assert os.path.exists(path.with_name("conversations.version-1.sqlite3"))
