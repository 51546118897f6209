"""Chats of every format in, and the same chats out again."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.attachments.reading import ReadFile
from app.conversations import Conversations
from app.exchange.exporting import file_name
from app.exchange.importing import FoundFile, read_chats
from app.exchange.registry import FORMATS
from app.exchange.service import Exchange
from app.exchange.tree import ChatTree
from app.thoughts import answer_of, thought_of
from engine.data.errors import BadOptionError

FILES = Path(__file__).parent / "chat_files"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Conversations]:
    opened = Conversations(tmp_path / "chats.sqlite3")
    yield opened
    opened.close()


def read(name: str) -> FoundFile:
    with (FILES / name).open("rb") as file:
        return read_chats(file, name)


def zipped(**files: bytes) -> io.BytesIO:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "."), data)
    content.seek(0)
    return content


def told(chat: ChatTree) -> list[tuple[str, str]]:
    return [(node.role, node.content) for node in chat.path()]


def json_of(store: Conversations) -> str:
    _, text = Exchange(store, lambda: None).give(None, "json")
    return "".join(text)


def take(store: Conversations, content: bytes, name: str = "chats.json") -> dict[str, Any]:
    return Exchange(store, lambda: None).take(io.BytesIO(content), name)


def test_chatgpt_shows_what_its_reader_saw() -> None:
    found = read("chatgpt.json")
    chat = found.chats[0]
    assert (found.formats, chat.title) == (["ChatGPT"], "Rivers of Europe")
    assert told(chat) == [
        ("user", "Which river is this?"),
        ("assistant", "The Rhine, \nnear Cologne."),
    ]
    question, answer = chat.path()
    assert (answer.reasoning, answer.model, answer.time) == ("It is wide.", "gpt-5", 1700000010.75)
    assert question.details == {"attachments": ["image_asset_pointer"]}
    assert [node.content for node in chat.nodes if node not in chat.path()] == ["The Elbe."]
    assert (chat.created, chat.updated) == (1700000000.5, 1700000900.25)
    reasons = [(one.what, one.reason) for one in found.skipped]
    assert reasons == [
        ("Empty", "it holds no messages"),
        ("chat 3", "it is not a chat of ChatGPT"),
    ]


@pytest.mark.parametrize("names", [["conversations"], ["conversations-000", "conversations-001"]])
def test_chatgpt_zip_alone_and_in_parts(names: list[str]) -> None:
    chats = json.loads((FILES / "chatgpt.json").read_bytes())[:1]
    files = {f"{name}__json": json.dumps(chats).encode() for name in names}
    others = {"user__json": b'{"email": "x"}', "chat__html": b"<html>", "broken__json": b"{"}
    found = read_chats(zipped(**files, **others), "export.zip")
    assert (found.formats, len(found.chats)) == (["ChatGPT"], len(names))
    assert [one.what for one in found.skipped] == ["broken.json"]


def test_open_webui_keeps_versions_thoughts_and_the_system_prompt() -> None:
    (chat,) = read("open_webui.json").chats
    assert told(chat) == [("user", "Green or black?"), ("assistant", "Green.")]
    assert chat.path()[1].reasoning == "Taste & time\nof day."
    assert chat.details == {"system": "Be brief.", "pinned": True, "folder": "drinks"}
    beside = [node for node in chat.nodes if node not in chat.path()]
    assert [(node.content, node.parent) for node in beside] == [("Black.", 1), ("Why?", 2)]
    assert beside[1].details == {"attachments": ["tea.pdf"]}


def test_lm_studio_takes_the_selected_version_of_each_position() -> None:
    (chat,) = read("lm_studio.conversation.json").chats
    expected = [("user", "How long?"), ("assistant", "Forty minutes."), ("user", "Thanks")]
    assert told(chat) == expected
    assert (chat.path()[1].reasoning, chat.path()[1].model) == ("Size matters.", "qwen3-4b")
    assert (chat.title, chat.created) == ("Bread", 1720000000.123)
    assert chat.details == {"system": "You bake."}
    assert len(chat.nodes) == 4


def test_llama_server_lines_and_its_zip() -> None:
    stars, second = read("llama_server.jsonl").chats
    assert told(stars) == [("user", "Nearest star?"), ("assistant", "The Sun")]
    assert stars.path()[1].reasoning == "A trick question."
    assert (stars.updated, stars.details) == (1730000000.456, {"pinned": True})
    assert (told(second), second.title) == ([("user", "Hello")], "Second")
    assert second.nodes[0].details == {"attachments": ["notes.txt"]}
    content = (FILES / "llama_server.jsonl").read_bytes()
    archive = zipped(a__jsonl=content, b__jsonl=content, notes__txt=b"not read")
    found = read_chats(archive, "chats")
    assert (found.formats, len(found.chats), found.skipped) == (["llama-server"], 4, [])


def test_llama_server_earlier_form() -> None:
    (chat,) = read("llama_server_legacy.json").chats
    assert told(chat) == [("user", "Hi"), ("assistant", "Hello!")]
    assert chat.path()[1].reasoning == "polite"


def test_sharegpt_lines() -> None:
    french, lines = read("sharegpt.jsonl").chats
    assert told(french)[0] == ("system", "Answer in French.")
    assert told(french)[1:] == [("user", "Good morning"), ("assistant", "Bonjour")]
    assert [text for _, text in told(lines)] == ["Two lines:\u2028here", "Oui", "Merci"]


def test_every_format_has_an_example() -> None:
    found = {read(path.name).formats[0] for path in FILES.iterdir()}
    assert found == {one.name for one in FORMATS}


def test_own_form_comes_out_as_it_went_in(store: Conversations) -> None:
    content = (FILES / "forerun.json").read_bytes()
    summary = take(store, content)
    assert (summary["chats"], summary["messages"], summary["beside"]) == (1, 3, 2)
    assert json.loads(json_of(store)) == json.loads(content)


@pytest.mark.parametrize("path", sorted(FILES.iterdir()), ids=lambda path: path.name)
def test_what_is_exported_can_be_imported_without_loss(
    path: Path, store: Conversations, tmp_path: Path
) -> None:
    take(store, path.read_bytes(), path.name)
    first = json_of(store)
    other = Conversations(tmp_path / "other.sqlite3")
    try:
        take(other, first.encode())
        assert json_of(other) == first
    finally:
        other.close()


def test_a_chat_goes_on_after_its_import(store: Conversations) -> None:
    take(store, (FILES / "forerun.json").read_bytes())
    (chat,) = store.find()
    store.add_user(chat.id, "written here")
    (exported,) = json.loads(json_of(store))["chats"]
    last = exported["messages"][-1]
    assert (last["id"], last["parent"], last["content"]) == (6, 5, "written here")
    assert exported["current"] == 6
    messages = store.messages(chat.id)
    store.delete(messages[1].id)
    (exported,) = json.loads(json_of(store))["chats"]
    assert [one["content"] for one in exported["messages"]] == ["Count.", "To two", "One, two"]
    assert exported["current"] == 3


def test_a_reply_of_another_program_is_drawn_without_a_warning(store: Conversations) -> None:
    take(store, (FILES / "open_webui.json").read_bytes())
    (chat,) = store.find("green")
    reply = store.messages(chat.id)[1]
    assert reply.tokens == [["Green.", "p", None, None, None, None]]
    assert not reply.details.get("notices") and reply.details["model"] == "qwen3:8b"
    assert reply.reasoning == "Taste & time\nof day."


def test_chats_keep_their_age_but_none_is_of_the_future(store: Conversations) -> None:
    chats = [
        {"conversations": [{"from": "human", "value": "a"}]},
    ]
    take(store, json.dumps(chats).encode())
    content = json.loads((FILES / "forerun.json").read_bytes())
    content["chats"][0]["updated"] = 99_999_999_999
    take(store, json.dumps(content).encode())
    newest, other = store.find()
    assert newest.updated - other.updated < 60


def test_markdown_has_the_path_with_thoughts_and_figures(store: Conversations) -> None:
    take(store, (FILES / "forerun.json").read_bytes())
    (chat,) = store.find()
    name, text = Exchange(store, lambda: None).give(chat.id, "markdown")
    written = "".join(text)
    assert name == "forerun-counting.md"
    assert written.startswith('---\ntitle: "Counting"\ncreated: "2025-06-15T15:06:40+00:00"\n')
    assert 'drafters: ["ngram"]\ntokens: 2\ntokens_per_second: 8.0\n' in written
    thoughts = "<details>\n<summary>Thoughts</summary>\n\neasy\n\n</details>\n\n1 2"
    assert f"## User\n\nTo two\n\n## Assistant\n\n{thoughts}\n\n## User\n\nAnd to three?" in written
    assert "One, two" not in written


def test_a_wrong_record_of_drafting_costs_only_itself(store: Conversations) -> None:
    content = json.loads((FILES / "forerun.json").read_bytes())
    reply = content["chats"][0]["messages"][2]
    reply["tokens"][0][0] = "other text"
    reply["details"] |= {"stats": {"rounds": "many"}, "notices": 5, "earlier": True, "kept": [1]}
    take(store, json.dumps(content).encode())
    (chat,) = store.find()
    stored = store.messages(chat.id)[1]
    assert stored.content == "1 2"
    assert stored.tokens == [["1 2", "p", None, None, None, None]]
    assert {"stats", "earlier"}.isdisjoint(stored.details)
    assert (stored.details.get("notices", []), stored.details["kept"]) == ([], [1])


THINKING: list[Any] = [[text, "p", None, 1.0, None, None] for text in ("", "why", "", "Yes", "!")]


def test_a_thought_that_was_written_here_goes_out_and_comes_back(store: Conversations) -> None:
    chat = store.create("Is it so?").id
    store.add_user(chat, "Is it so?")
    details: dict[str, Any] = {"model": "starter", "drafters": [], "notices": []}
    details |= {"reasoning": {"from": 0, "to": 3, "seconds": 1.5}}
    store.save_reply(store.start_reply(chat), "Yes!", THINKING, details, False)
    exported = json_of(store)
    assert json.loads(exported)["chats"][0]["messages"][1]["reasoning"] == "why"
    _, markdown = Exchange(store, lambda: None).give(chat, "markdown")
    assert "<summary>Thoughts</summary>\n\nwhy\n\n</details>\n\nYes!" in "".join(markdown)
    store.set_deleted(chat, True)
    take(store, exported.encode())
    (found,) = store.find()
    reply = store.messages(found.id)[1]
    assert (reply.content, reply.tokens) == ("Yes!", THINKING)
    assert thought_of(reply.tokens, reply.details) == "why"


@pytest.mark.parametrize(
    "change",
    [
        {"details": {"reasoning": {"from": 0, "to": 1, "seconds": 1}}},
        {"tokens": []},
        {"details": {"reasoning": {"from": "0", "to": 3, "seconds": 1}}},
        {"details": {"reasoning": {"from": 3, "to": 0, "seconds": 1}}},
        {"details": {"reasoning": {"from": 0, "to": 3, "seconds": None}}},
    ],
)
def test_a_wrong_place_of_a_thought_hides_nothing_of_the_answer(
    store: Conversations, change: dict[str, Any]
) -> None:
    content = json.loads((FILES / "forerun.json").read_bytes())
    thinking = {"reasoning": {"from": 0, "to": 3, "seconds": 1}}
    reply = {"content": "Yes!", "tokens": THINKING, "details": thinking}
    content["chats"][0]["messages"][2] |= reply | change
    take(store, json.dumps(content).encode())
    (chat,) = store.find()
    stored = store.messages(chat.id)[1]
    assert stored.content == "Yes!"
    assert answer_of(stored.tokens, stored.details) == "Yes!"
    assert "reasoning" not in stored.details


def test_names_of_files_are_safe() -> None:
    assert file_name('../..\\ \r\n"; CON: été\u202e/x', "json") == "forerun-con-t-x.json"
    assert file_name("日本", "markdown") == "forerun-chat.md"
    assert len(file_name("a" * 500, "json")) < 80


def test_a_newer_form_is_refused() -> None:
    content = b'{"format": "forerun-chats", "version": 2, "chats": []}'
    with pytest.raises(BadOptionError, match="newer Forerun"):
        read_chats(io.BytesIO(content), "new.json")


def test_files_of_a_message_go_out_and_come_back(store: Conversations) -> None:
    chat = store.create("read this").id
    message = store.add_user(chat, "read this")
    store.keep_file(ReadFile("ab" * 32, "notes.pdf", "pdf", 1234, "the sky is green"))
    store.attach(message, [("ab" * 32, "notes.pdf")])
    exported = json_of(store)
    files = json.loads(exported)["chats"][0]["messages"][0]["files"]
    assert files == [
        {"name": "notes.pdf", "kind": "pdf", "bytes": 1234, "text": "the sky is green"}
    ]
    _, markdown = Exchange(store, lambda: None).give(chat, "markdown")
    assert "Files: notes.pdf\n\nread this" in "".join(markdown)
    store.set_deleted(chat, True)
    take(store, exported.encode())
    (found,) = store.find()
    (kept,) = store.attachments(store.messages(found.id)[0].id)
    assert (kept.name, kept.kind, kept.bytes, kept.text) == (
        *("notes.pdf", "pdf", 1234, "the sky is green"),
    )
    assert json_of(store) == exported


def test_files_of_an_export_are_checked(store: Conversations) -> None:
    """Whatever a file says of itself, it is known by its text alone."""
    content = json.loads((FILES / "forerun.json").read_bytes())
    message = content["chats"][0]["messages"][1]
    odd: list[Any] = [7, {"name": "../x\u202e", "bytes": -1, "text": "a", "sha256": "ab"}]
    message["files"] = odd + [{"text": str(number)} for number in range(20)]
    take(store, json.dumps(content).encode())
    (chat,) = store.find()
    kept = store.attachments(store.messages(chat.id)[0].id)
    assert len(kept) == 10
    assert kept[1].text == "a" and kept[1].bytes == 0 and "/" not in kept[1].name
    assert kept[1].sha256 == sha256(b"a").hexdigest()
