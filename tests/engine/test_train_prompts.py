"""Prompts and the user's own material, which drafters learn from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations import Conversations
from engine.data.errors import BadOptionError
from engine.train.corpus.prompt_files import prompt_count, prompt_file_items
from engine.train.corpus.prompt_list import COUNT, built_in_prompts, own_questions
from engine.train.corpus.settings import CollectSettings
from engine.train.corpus.sources import (
    all_blocks,
    chat_items,
    chunks,
    new_tokens,
    own_sources,
    text_items,
)
from engine.train.corpus.work import BLOCK


def test_built_in_prompts_are_many_different_and_the_same_every_time() -> None:
    prompts = list(built_in_prompts(0))
    texts = {item.messages[0].content for item in prompts}
    assert len(texts) == len(prompts) == COUNT > 20_000
    assert len({item.category for item in prompts}) == 13
    assert not [text for text in texts if "{" in text.replace("{2-", "") and "json" not in text]
    heldout = sum(item.heldout for item in prompts) / COUNT
    assert 0.04 < heldout < 0.06
    again = built_in_prompts(0)
    assert [next(again) for _ in range(200)] == prompts[:200]
    other = built_in_prompts(1)
    assert [next(other).messages for _ in range(20)] != [one.messages for one in prompts[:20]]


def test_own_questions_begin_in_many_ways() -> None:
    questions = list(own_questions(0))
    assert len({item.id for item in questions}) == COUNT
    assert len({item.opening for item in questions}) > 60
    assert {item.temperature for item in questions} == {1.0}


def test_prompts_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    lines = [
        {"turns": ["one", "then", "never"]},
        {"prompt": "two"},
        {"question": "three", "answer": "no"},
        {"instruction": "four", "input": "its text"},
        {"instruction": "five", "instances": [{"input": "theirs", "output": ""}]},
        {"prompt": "two"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    found = list(prompt_file_items(str(file)))
    texts = [item.messages[0].content for item in found]
    assert texts == ["one", "two", "three", "four\n\nits text", "five\n\ntheirs"]
    assert [item.follow_up for item in found] == ["then", "", "", "", ""]
    assert prompt_count(str(file)) == len({item.id for item in found}) == 5
    (tmp_path / "p.txt").write_text("a line\n\nanother\n")
    asked = prompt_file_items(str(tmp_path / "p.txt"))
    assert [item.messages[0].content for item in asked] == ["a line", "another"]


@pytest.mark.parametrize("line", ["no json", "3", '{"text": "a"}', '{"turns": []}', '{"turns": 3}'])
def test_what_is_no_prompt_is_named_by_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "p.jsonl").write_text(f'{{"prompt": "fine"}}\n{line}\n')
    with pytest.raises(BadOptionError, match=r"p\.jsonl, line 2"):
        prompt_count(str(tmp_path / "p.jsonl"))


def test_files_without_prompts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    for name, reason in (
        ("p.jsonl", "holds no"),
        ("no.txt", "there is no"),
        ("bytes.txt", "UTF-16 text"),
    ):
        with pytest.raises(BadOptionError, match=reason):
            prompt_count(str(tmp_path / name))


def test_sources_take_turns(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("\n".join(f"ask {number}" for number in range(BLOCK + 1)))
    settings = CollectSettings("", "", 1, prompts=(str(tmp_path / "p.txt"),))
    found = all_blocks(settings)
    kinds = [{item.id.partition(":")[0] for item in block} for block in found]
    assert kinds[:6] == [{"file"}, {"own"}, {"prompt"}, {"file"}, {"own"}, {"prompt"}]
    assert [len(block) for block in found[:5]] == [BLOCK, BLOCK, BLOCK, 1, BLOCK]
    without = all_blocks(replace(settings, prompts=()))
    assert without == [block for block in found if not block[0].id.startswith("file")]


def test_text_is_read_in_chunks_and_some_of_it_is_to_be_continued(tmp_path: Path) -> None:
    lines = [f"line {number} of a text\n" for number in range(400)]
    (tmp_path / "a.md").write_text("".join(lines))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    found = list(text_items([str(tmp_path)]))
    read = [item.text for item in found if item.text]
    assert "".join(read) == "".join(lines)
    assert max(map(len, read)) <= 1600
    assert any(item.messages and "Continue" in item.messages[0].content for item in found)
    assert list(chunks("x" * 4000)) == ["x" * 1600, "x" * 1600, "x" * 800]
    with pytest.raises(BadOptionError, match="there is no"):
        list(text_items([str(tmp_path / "none")]))


def test_only_own_material_that_is_not_there_yet_is_new(tmp_path: Path) -> None:
    for name in ("a", "b"):  # the same licence in both, and as long
        (tmp_path / f"{name}.md").write_text("licence\n" * 200 + f"about {name}\n" * 100)
    prompts = tmp_path / "p.txt"
    prompts.write_text(f"ask one\nask two\n{'long ' * 1000}")
    settings = CollectSettings(
        "", "", 1, text=(str(tmp_path / "a.md"), str(tmp_path / "b.md")), prompts=(str(prompts),)
    )
    items = [item for source in own_sources(settings) for item in source]
    assert len({item.id for item in items}) == len(items)
    assert sum("about a" in item.text for item in items) == 1
    everything = new_tokens(settings, set())
    texts = sum(len(item.text) for item in items) // 4
    short = [item for item in items if item.messages and len(item.messages[0].content) < 1000]
    assert len(short) == 3, "two prompts, and a text's beginning to go on from"
    assert everything == pytest.approx(texts + 130 * 3, abs=len(items))
    assert new_tokens(settings, {item.id for item in items if not item.text}) == everything - 390
    assert new_tokens(settings, {item.id for item in items}) == 0


def test_chats_are_prompts_up_to_each_question(tmp_path: Path) -> None:
    chats = Conversations(tmp_path / "c.sqlite3")
    one = chats.create("first").id
    chats.add_user(one, "hi")
    chats.save_reply(chats.start_reply(one), "hello", [], {}, streaming=False)
    chats.add_user(one, "more")
    chats.start_reply(one)
    found = list(chat_items(tmp_path / "c.sqlite3"))
    chats.close()
    assert [[m.content for m in item.messages] for item in found] == [
        ["hi"],
        ["hi", "hello", "more"],
    ]
    with pytest.raises(BadOptionError, match="no chats"):
        list(chat_items(tmp_path / "none.sqlite3"))
