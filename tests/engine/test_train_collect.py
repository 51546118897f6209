"""Collecting what drafters learn from: many sequences in one pass, and going on later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.data.request import Message
from engine.files.gguf import inspect
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.many import ManyContext, ManyOptions
from engine.llama.model import Model, ModelOptions
from engine.text.chat import ChatTemplate
from engine.train.corpus.batched_generator import BatchedGenerator, BatchLimits
from engine.train.corpus.collect import Collector, CollectProgress, Goal
from engine.train.corpus.settings import read_layers
from engine.train.corpus.shards import Corpus, count
from engine.train.corpus.work import Item, blocks
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
