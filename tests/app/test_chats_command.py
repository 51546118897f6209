"""`forerun chats`: what it prints and returns, alone and beside a page."""

from __future__ import annotations

import json
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.__main__ import main
from app.conversations import Conversations
from engine.data.folders import DataFolder
from engine.files.file_lock import FileLock

FILES = Path(__file__).parent / "chat_files"
EXAMPLE = FILES / "forerun.json"


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data").ensure()


@pytest.fixture
def store(folder: DataFolder) -> Iterator[Conversations]:
    """What a running page has open."""
    lock = FileLock(folder.page_lock)
    assert lock.take()
    opened = Conversations(folder.conversations_file)
    yield opened
    opened.close()
    lock.close()


def chats(folder: DataFolder, *arguments: object) -> int:
    return main(["chats", *map(str, arguments), "--data-dir", str(folder.root)])


def test_in_and_out_of_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = DataFolder(tmp_path / "new"), tmp_path / "out.json"
    assert chats(folder, "import", EXAMPLE) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "1 chat with 3 messages imported (Forerun)"
    assert chats(folder, "export", out) == 0
    assert json.loads(out.read_bytes()) == json.loads(EXAMPLE.read_bytes())
    assert capsys.readouterr().out == f"1 chat written to {out}\n"
    if sys.platform != "win32":
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert list(tmp_path.glob(".out*")) == []


def test_summary_as_json(folder: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert chats(folder, "import", FILES / "chatgpt.json", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["formats"], summary["chats"], summary["messages"]) == (["ChatGPT"], 1, 2)
    assert (summary["beside"], summary["skipped_count"]) == (1, 2)


def test_the_ending_chooses_the_format_unless_it_is_named(
    folder: DataFolder, tmp_path: Path
) -> None:
    chats(folder, "import", EXAMPLE)
    out = tmp_path / "out.md"
    assert chats(folder, "export", out, "--chat", 1) == 0
    assert out.read_text(encoding="utf-8").startswith("---\ntitle:")
    assert chats(folder, "export", out, "--format", "json") == 0
    assert json.loads(out.read_bytes())["format"] == "forerun-chats"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "{out}"], "there are no chats to export"),
        (["export", "{out}", "--chat", "x"], "invalid int value"),
        (["export", "{out}", "--format", "pdf"], "invalid choice"),
        (["import", "{out}"], "is not a file"),
        (["import", str(Path(__file__))], "chats come as JSON"),
        (["import"], "required: FILE"),
        ([], "required: STEP"),
    ],
)
def test_wrong_requests_are_one_line(
    arguments: list[str],
    message: str,
    folder: DataFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [word.format(out=tmp_path / "nothing.json") for word in arguments]
    assert chats(folder, *filled) == 2
    told = capsys.readouterr().err
    assert told.startswith("forerun: ") and told.count("\n") == 1 and message in told
    assert not (tmp_path / "nothing.json").exists()


def test_a_chat_that_is_not_there(
    folder: DataFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chats(folder, "import", EXAMPLE)
    assert chats(folder, "export", tmp_path / "x.json", "--chat", 9) == 2
    assert "there is no chat 9" in capsys.readouterr().err
    assert chats(folder, "export", tmp_path) == 2
    assert "is a folder" in capsys.readouterr().err
    assert chats(folder, "export", tmp_path / "missing" / "x.json") == 1


def test_beside_a_page_nothing_of_its_own_is_touched(
    folder: DataFolder, store: Conversations, tmp_path: Path
) -> None:
    """A reply is being written, and a chat was deleted that can still be restored."""
    writing = store.create("being written")
    store.add_user(writing.id, "being written")
    reply = store.start_reply(writing.id)
    bin_ = store.create("in the bin")
    store.add_user(bin_.id, "in the bin")
    store.set_deleted(bin_.id, True)
    assert chats(folder, "import", EXAMPLE) == 0
    assert chats(folder, "export", tmp_path / "all.json") == 0
    assert {chat.title for chat in store.find()} == {"being written", "Counting"}
    assert store.messages(writing.id)[1].streaming
    store.save_reply(reply, "done", [["done", "p", None, None, None, None]], {}, False)
    assert store.set_deleted(bin_.id, False)
    exported = json.loads((tmp_path / "all.json").read_bytes())["chats"]
    written = next(chat for chat in exported if chat["title"] == "being written")
    assert written["messages"][1]["details"]["finish"] == "interrupted"


def test_a_page_that_writes_does_not_stop_an_import(
    folder: DataFolder, store: Conversations
) -> None:
    """And the page reads and writes on while a command holds an old view of the file."""
    with closing(sqlite3.connect(folder.conversations_file)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from messages").fetchone()
        assert chats(folder, "import", EXAMPLE) == 0
        store.create("meanwhile")
    assert len(store.find()) == 2


def test_beside_a_page_of_another_version_nothing_is_read(
    folder: DataFolder, store: Conversations, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(folder.conversations_file)) as other:
        other.execute("pragma user_version = 7")
        other.commit()
    assert chats(folder, "import", EXAMPLE) == 1
    assert "another version of Forerun" in capsys.readouterr().err


def test_alone_a_damaged_file_is_recovered_first(
    folder: DataFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.conversations_file.write_bytes(b"no database" * 1_000)
    assert chats(folder, "import", EXAMPLE) == 0
    told = capsys.readouterr()
    assert "was damaged" in told.err and "1 chat with 3 messages" in told.out
    assert list(folder.root.glob("conversations.damaged*"))
