"""A chat's next prompt keeps the tokens of the turn before; text is never cut in a character."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.llama.vocab import Vocab
from engine.text.detokenize import IncrementalText
from engine.text.prompt import prompt_tokens
from tests.tiny_gguf import write_tiny_gguf

TURN = "<|im_start|>user\nhello the end<|im_end|>\n<|im_start|>assistant\n"
NEXT = "<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory, library: Library) -> Iterator[Vocab]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("vocab") / "tiny.gguf", layers=1)
    with Model(path, ModelOptions(), library.log) as model:
        yield model.vocab


def cut(vocab: Vocab, text: str) -> list[int]:
    return vocab.tokenize(text, add_special=False, parse_special=True)


def letters(vocab: Vocab, text: str) -> list[int]:
    """A tokenisation that is not the canonical one: byte by byte."""
    return [token for byte in text.encode() for token in _byte(vocab, byte)]


def _byte(vocab: Vocab, byte: int) -> list[int]:
    return [next(token for token in range(256) if vocab.piece(token) == bytes([byte]))]


def test_without_a_turn_before_the_text_is_cut_as_usual(vocab: Vocab) -> None:
    assert prompt_tokens(vocab, TURN, ()) == cut(vocab, TURN)


@pytest.mark.parametrize("reply", ["hello there", "", "naïve 🦜", "  spaces  "])
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "stopped"])
def test_the_replys_own_tokens_are_kept(vocab: Vocab, reply: str, ended: bool) -> None:
    held = [*cut(vocab, TURN), *letters(vocab, reply)]
    if ended:
        held += cut(vocab, "<|im_end|>")
    tokens = prompt_tokens(vocab, TURN + reply + NEXT, held)
    assert tokens[: len(held)] == held
    assert vocab.text_bytes(tokens).decode() == TURN + reply + NEXT
    assert tokens[len(held) :] == cut(vocab, NEXT)[1 if ended else 0 :]


def test_a_reply_ended_by_another_token_than_the_templates_is_kept(vocab: Vocab) -> None:
    reply = letters(vocab, "hello there")
    held = [*cut(vocab, TURN), *reply, *cut(vocab, "<|endoftext|>")]
    tokens = prompt_tokens(vocab, TURN + "hello there" + NEXT, held)
    assert tokens[: len(held) - 1] == held[:-1]
    assert vocab.text_bytes(tokens).decode() == TURN + "hello there" + NEXT


@pytest.mark.parametrize("edited", ["hello then", "hel", "HELLO THERE", "hello there!", "éa"])
def test_an_edited_reply_is_cut_anew(vocab: Vocab, edited: str) -> None:
    held = [*cut(vocab, TURN), *letters(vocab, "hello there"), *cut(vocab, "<|im_end|>")]
    text = TURN + edited + NEXT
    tokens = prompt_tokens(vocab, text, held)
    assert vocab.text_bytes(tokens).decode() == text
    kept = cut(vocab, TURN.removesuffix("assistant\n"))
    assert tokens[: len(kept)] == kept


def test_a_reply_that_stopped_inside_a_character(vocab: Vocab) -> None:
    """The page shows a replacement character, the user may have mended it."""
    half = letters(vocab, "né")[:-1]
    held = [*cut(vocab, TURN), *half]
    for shown in ("n\N{REPLACEMENT CHARACTER}", "né", "n"):
        tokens = prompt_tokens(vocab, TURN + shown + NEXT, held)
        assert vocab.text_bytes(tokens).decode() == TURN + shown + NEXT


def test_half_a_surrogate_becomes_a_question_mark(vocab: Vocab) -> None:
    tokens = prompt_tokens(vocab, TURN + "a\ud83d", cut(vocab, TURN))
    assert vocab.text_bytes(tokens).decode() == TURN + "a?"


texts = st.text(alphabet="abhel oé🦜\n", max_size=12)


@given(texts, texts, st.integers(0, 30))
def test_the_text_is_never_changed(vocab: Vocab, reply: str, shown: str, stop: int) -> None:
    held = [*cut(vocab, TURN), *letters(vocab, reply)[:stop]]
    text = TURN + shown + NEXT
    assert vocab.text_bytes(prompt_tokens(vocab, text, held)).decode() == text


# Bytes to text


def incremental(pieces: Sequence[bytes]) -> tuple[list[str], str]:
    text = IncrementalText(lambda token: pieces[token])
    return [text.push(token) for token in range(len(pieces))], text.finish()


def test_a_character_comes_with_the_token_that_completes_it() -> None:
    bird = "🦜".encode()
    assert incremental([b"a", bird[:1], bird[1:3], bird[3:] + b"b"]) == (["a", "", "", "🦜b"], "")


def test_an_incomplete_character_at_the_end_is_marked() -> None:
    assert incremental([b"a", "é".encode()[:1]]) == (["a", ""], "\N{REPLACEMENT CHARACTER}")


def test_bytes_that_are_no_text_are_replaced_and_do_not_swallow_what_follows() -> None:
    words, rest = incremental([b"\xff", b"a", b"\xe2\x82", b"b"])
    assert "".join(words) + rest == "\ufffda\ufffdb"


@given(st.text(max_size=20), st.lists(st.integers(1, 5), max_size=80))
def test_however_the_bytes_are_cut_the_text_is_the_same(text: str, sizes: list[int]) -> None:
    data = re.sub("[\ud800-\udfff]", "", text).encode()
    pieces, start = [], 0
    for size in [*sizes, len(data) + 1]:
        pieces.append(data[start : start + size])
        start += size
    words, rest = incremental(pieces)
    assert "".join(words) + rest == data.decode()
