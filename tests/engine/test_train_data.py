"""The data that drafters learn from: prompts, draws, shards, many sequences in one pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.conversations import Conversations
from engine.data.errors import BadOptionError, RunError
from engine.data.request import Message
from engine.files.gguf import inspect
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.many import ManyContext, ManyOptions
from engine.llama.model import Model, ModelOptions
from engine.text.chat import ChatTemplate
from engine.train.corpus.batched_generator import BatchedGenerator, BatchLimits
from engine.train.corpus.claims import Claims
from engine.train.corpus.collect import Collector, CollectProgress, Goal
from engine.train.corpus.disk import LIKELIEST, require_disk
from engine.train.corpus.likely import draw_nucleus, largest, log_sum_exp
from engine.train.corpus.prompt_files import prompt_count, prompt_file_items
from engine.train.corpus.prompt_list import COUNT, built_in_prompts, own_questions
from engine.train.corpus.settings import CollectSettings, read_layers
from engine.train.corpus.shards import Corpus, Document, ShardWriter, count
from engine.train.corpus.sources import (
    all_blocks,
    chat_items,
    chunks,
    new_tokens,
    own_sources,
    text_items,
)
from engine.train.corpus.work import BLOCK, Item, blocks
from tests.tiny_gguf import write_tiny_gguf

LAYERS = 6
HIDDEN = 64


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, library: Library) -> Iterator[Model]:
    path = write_tiny_gguf(
        tmp_path_factory.mktemp("tiny") / "t.gguf", layers=LAYERS, hidden=HIDDEN, context=512
    )
    with Model(path, ModelOptions(0, repack=False), library.log) as model:
        yield model


@pytest.fixture(params=["llama", "qwen2"])
def shown(request: pytest.FixtureRequest, tmp_path: Path, library: Library) -> Iterator[Model]:
    """A target that hands its layer inputs out, and one whose layers are captured."""
    path = write_tiny_gguf(
        tmp_path / "t.gguf", layers=LAYERS, context=512, architecture=request.param
    )
    with Model(path, ModelOptions(0, repack=False), library.log) as model:
        yield model


def items(number: int) -> list[Item]:
    return [
        Item(f"p:{index}", "qa", (Message("user", f"tell me of {index}"),))
        for index in range(number)
    ]


def open_lane(model: Model, sequences: int) -> tuple[ManyContext, BatchedGenerator]:
    options = ManyOptions(sequences, 128, 1, read_layers(model.layers))
    context = ManyContext(model, options, AbortFlag())
    template = ChatTemplate(inspect(model.path).chat_template, "", "")
    return context, BatchedGenerator(context, template, BatchLimits(96, 24))


def document(name: str, length: int, heldout: bool = False) -> Document:
    random = np.random.default_rng(length)
    return Document(
        name,
        "qa",
        heldout,
        np.arange(length, dtype=np.int32),
        np.arange(length) >= 2,
        random.normal(size=(length, HIDDEN)).astype(np.float16),
        random.normal(size=(length, 3 * HIDDEN)).astype(np.float16),
        np.ones((length, LIKELIEST), np.int32),
        np.zeros((length, LIKELIEST), np.float16),
    )


# Prompts and the user's own material


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


# Numbers


@pytest.mark.parametrize("vocabulary", [40, 5000, 16_384, 16_400])
def test_the_largest_are_what_sorting_finds(vocabulary: int) -> None:
    logits = np.random.default_rng(0).normal(size=(7, vocabulary)).astype(np.float32)
    ids, values = largest(logits, 16)
    assert np.array_equal(values, -np.sort(-logits, axis=1)[:, :16])
    assert np.array_equal(np.take_along_axis(logits, ids.astype(np.int64), axis=1), values)
    expected = np.log(np.exp(logits.astype(np.float64)).sum(axis=1))
    assert np.allclose(log_sum_exp(logits, values[:, 0]), expected, atol=1e-4)


def test_draws_follow_the_nucleus() -> None:
    values = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
    grid = (np.arange(1000) + 0.5) / 1000
    drawn = draw_nucleus(np.repeat(values, 1000, axis=0), np.full(1000, 1.0), 0.9, grid)
    counts = np.bincount(drawn, minlength=4)
    assert np.abs(counts - 1000 * np.array([0.5, 0.3, 0.15, 0.0]) / 0.95).max() <= 1
    colder = draw_nucleus(np.repeat(values, 1000, axis=0), np.full(1000, 0.5), 1.0, grid)
    squares = np.array([0.25, 0.09, 0.0225, 0.0025])
    assert np.abs(np.bincount(colder, minlength=4) - 1000 * squares / squares.sum()).max() <= 1


# Shards


def test_shards_come_back_as_they_were_written(tmp_path: Path) -> None:
    first, second = ShardWriter(tmp_path, HIDDEN), ShardWriter(tmp_path, HIDDEN)
    written = [document("a", 5), document("b", 9, heldout=True), document("c", 3)]
    for one in written[:2]:
        first.add(one)
    second.add(written[2])
    assert [first.write(), second.write(), first.write()] == [
        tmp_path / "shards" / "00000",
        tmp_path / "shards" / "00001",
        None,
    ]
    found = Corpus(tmp_path).documents(None)
    assert [one.id for one in found] == ["a", "b", "c"]
    for ours, theirs in zip(written, found, strict=True):
        for name in ("tokens", "answer", "hidden", "layers", "top_ids", "top_logprobs"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert [one.id for one in Corpus(tmp_path).documents(heldout=True)] == ["b"]
    counts = count(tmp_path)
    assert (counts.documents, counts.tokens, counts.answer_tokens) == (3, 17, 11)
    assert counts.heldout_answer_tokens == 7


def test_what_a_killed_writer_left_is_removed_and_a_running_one_s_is_not(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    dead, alive = int(ended.stdout), os.getppid()
    for owner in (dead, alive):
        (tmp_path / "shards" / f".part-{owner}").mkdir(parents=True)
    ShardWriter(tmp_path, HIDDEN)
    assert [one.name for one in (tmp_path / "shards").iterdir()] == [f".part-{alive}"]
    assert count(tmp_path).documents == 0


def test_a_disk_without_room_is_said_beforehand(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="free some space"):
        require_disk(tmp_path / "not" / "there", 1e18)


def test_a_shard_that_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, HIDDEN)
    writer.add(document("a", 5))
    shard = writer.write()
    assert shard is not None
    (shard / "tokens.npy").unlink()
    with pytest.raises(RunError, match="damaged"):
        Corpus(tmp_path)
    (shard / "tokens.npy").mkdir()
    with pytest.raises(RunError, match="cannot be read"):
        Corpus(tmp_path)


def test_the_limit_of_open_files_is_raised() -> None:
    code = (
        "import resource; from engine.data.machine import allow_many_files;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard)); allow_many_files();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 100)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_disk_that_refuses_keeps_the_documents(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, HIDDEN)
    writer.add(document("a", 5))
    (tmp_path / "shards").rename(tmp_path / "away")
    (tmp_path / "shards").write_text("in the way")
    with pytest.raises(RunError, match="could not be written"):
        writer.write()
    (tmp_path / "shards").unlink()
    (tmp_path / "away").rename(tmp_path / "shards")
    assert writer.write() is not None


def test_a_block_belongs_to_one_collector(tmp_path: Path) -> None:
    one, two = Claims(tmp_path), Claims(tmp_path)
    assert one.take("a:3")
    assert not two.take("a:3")
    assert two.take("a:4")
    one.close()
    assert two.take("a:3")
    two.close()


# Passes over many sequences


def test_features_of_many_sequences_are_those_of_each_alone(shown: Model) -> None:
    """Documents end at different times, so later passes have gaps in their sequence numbers."""
    context, lane = open_lane(shown, 5)
    chats = items(5)
    with context:
        assert [lane.admit(item) for item in chats] == [None] * 5
        finished = [one for _ in range(26) for one in lane.step()]
    assert {one.document.id for one in finished} == {item.id for item in chats}
    assert len({len(one.document) for one in finished}) > 1
    layers = read_layers(shown.layers)
    options = ContextOptions(128, 128, 1, embeddings=True, layer_inputs=layers)
    with Context(shown, options, AbortFlag()) as alone:
        for one in finished:
            found, rows = one.document, len(one.document)
            alone.clear()
            logits = alone.extend(found.tokens.tolist()).copy()
            assert np.allclose(alone.hidden_states(rows), found.hidden, atol=0.02)
            assert np.allclose(alone.layer_inputs(rows), found.layers, atol=0.02)
            total = np.log(np.exp(logits.astype(np.float64)).sum(axis=1))
            own = np.take_along_axis(logits, found.top_ids.astype(np.int64), axis=1)
            assert np.allclose(own - total[:, None], found.top_logprobs, atol=0.03)
            start = int(np.argmax(found.answer))
            assert found.answer[start:].all() and not found.answer[:start].any()
            if one.item.temperature == 0.0:
                assert np.array_equal(found.tokens[start:], found.top_ids[start - 1 : -1, 0])


def test_a_text_is_read_in_one_pass_and_all_of_it_is_learned(tiny: Model) -> None:
    context, lane = open_lane(tiny, 2)
    with context:
        finished = lane.admit(Item("t", "text", text="the other hello of the fall"))
        long = lane.admit(Item("long", "text", text="x" * 500))
        assert lane.admit(Item("long", "chat", (Message("user", "x" * 500),))) is None
        assert lane.free == 2
    assert long is not None and len(long.document) == context.longest_start, "cut"
    assert finished is not None
    assert finished.document.answer.all()
    assert finished.document.tokens.tolist() == tiny.vocab.tokenize(
        "the other hello of the fall", add_special=True, parse_special=False
    )


def collected(
    model: Model, folder: Path, wanted: list[Item], goal: Goal, lanes: int = 2
) -> CollectProgress:
    training, lane = open_lane(model, 6)
    heldout, small = open_lane(model, 2)
    with training, heldout:
        collector = Collector(folder, blocks(wanted), (lane, small)[:lanes], model.hidden_size)
        try:
            return collector.run(goal, lambda: False, lambda progress: None)
        finally:
            collector.close()


@pytest.mark.parametrize("lanes", [1, 2])
def test_collecting_goes_on_where_it_ended(tiny: Model, tmp_path: Path, lanes: int) -> None:
    wanted = items(70)
    first = collected(tiny, tmp_path, wanted, Goal(300), lanes)
    assert 0 < count(tmp_path).documents < len(wanted)
    assert first.corpus_tokens == count(tmp_path).answer_tokens >= 300
    collected(tiny, tmp_path, wanted, Goal(10**9), lanes)
    ids = [one.id for one in Corpus(tmp_path).documents(None)]
    assert sorted(ids) == sorted(item.id for item in wanted)
    heldout = {one.id for one in Corpus(tmp_path).documents(heldout=True)}
    assert heldout == {item.id for item in wanted if item.heldout} != set()


def test_prompts_that_are_too_long_are_left_out(tiny: Model, tmp_path: Path) -> None:
    long = [Item(f"l:{n}", "qa", (Message("user", "x" * 200),)) for n in range(200)]
    collected(tiny, tmp_path, [*long, *items(2)], Goal(10**9))
    found = {one.id for one in Corpus(tmp_path).documents(None)}
    assert found == {"p:0", "p:1"}


def test_the_next_turn_follows_the_target_s_own_answer(tiny: Model, tmp_path: Path) -> None:
    ask = Item("p:1", "qa", (Message("user", "a"),), follow_up="b")
    collected(tiny, tmp_path, [ask], Goal(10**9))
    found = {one.id: one for one in Corpus(tmp_path).documents(None)}
    assert set(found) == {"p:1", "p:1+"}
    assert found["p:1"].heldout == found["p:1+"].heldout
    texts = {
        name: tiny.vocab.text_bytes(one.tokens.tolist()).decode(errors="replace")
        for name, one in found.items()
    }
    said = texts["p:1"].partition("assistant\n")[2].removesuffix("<|im_end|>").strip()
    assert f"assistant\n{said}<|im_end|>\n<|im_start|>user\nb<|im_end|>" in texts["p:1+"]


def test_a_question_is_asked_before_it_is_answered(tiny: Model, tmp_path: Path) -> None:
    question = Item("own:1", "own question", opening="tell me")
    collected(tiny, tmp_path, [question], Goal(10**9))
    (found,) = Corpus(tmp_path).documents(None)
    assert found.id == "own:1"
    text = tiny.vocab.text_bytes(found.tokens.tolist()).decode(errors="replace")
    asked, _, answer = text.partition("<|im_start|>assistant\n")
    assert asked.count("<|im_start|>user\ntell me") == 1
    assert len(asked.partition("tell me")[2]) > len("<|im_end|>\n")
    start = int(np.argmax(found.answer))
    kept = tiny.vocab.text_bytes(found.tokens[start:].tolist()).decode(errors="replace")
    assert kept == answer


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, HIDDEN)
    writer.add(document("a", 5))
    shard = writer.write()
    assert shard is not None
    (shard / "shard.json").write_text(json.dumps({"id": ["a"]})[:-3])
    with pytest.raises(RunError, match="00000 is damaged"):
        count(tmp_path)
