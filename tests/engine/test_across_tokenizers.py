"""Drafting across tokenizers: shared tokens, staying in step with the text, exactness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.data.errors import IncompatiblePairError
from engine.drafters.models.translation import TranslatedTokens
from engine.files.gguf_types import TOKEN_BYTE, TOKEN_CONTROL, TOKEN_NORMAL, TOKEN_UNUSED
from engine.models.token_map import map_tokens, require_shared, shared_tokens
from engine.models.vocabulary import GgufVocabulary
from tests.tiny_gguf import write_tiny_gguf


def vocabulary(
    *tokens: str,
    control: Sequence[str] = (),
    spelling: str = "gpt2",
    eos: int | None = None,
    eot: int | None = None,
) -> GgufVocabulary:
    texts = [token.encode() for token in (*tokens, *control)]
    types = [TOKEN_BYTE if t.startswith("<0x") else TOKEN_NORMAL for t in tokens]
    types += [TOKEN_CONTROL] * len(control)
    return GgufVocabulary(tuple(texts), tuple(types), None, eos, eot, False, spelling, "")


def pairs(target: GgufVocabulary, drafter: GgufVocabulary) -> dict[int, int]:
    tokens = map_tokens(target, drafter)
    made = dict(zip(tokens.target_ids.tolist(), tokens.drafter_ids.tolist(), strict=True))
    assert {i: t for i, t in enumerate(tokens.to_drafter.tolist()) if t >= 0} == made
    assert len(set(made.values())) == len(made) == tokens.shared
    return made


# Which tokens are the same


def test_tokens_pair_by_their_bytes_whatever_their_spelling() -> None:
    bpe = vocabulary("Ġthe", "cat", "Ċ", "Ã©", "dog")
    pieces = vocabulary("▁dog", "cat", "▁the", "é", "<0x0A>", spelling="llama")
    assert pairs(bpe, pieces) == {0: 2, 1: 1, 2: 4, 3: 3}


def test_a_byte_token_gives_way_to_the_same_text() -> None:
    pieces = vocabulary("<0x41>", "<0x42>", "A", spelling="llama")
    assert pairs(vocabulary("A", "B"), pieces) == {0: 2, 1: 1}
    assert pairs(pieces, vocabulary("A", "B")) == {2: 0, 1: 1}


def test_control_tokens_pair_by_text_then_by_role_and_never_with_words() -> None:
    ours = vocabulary("a", control=["<|im_start|>", "<|im_end|>", "<|end|>"], eot=2, eos=3)
    theirs = vocabulary("<|end|>", "a", control=["<|im_start|>", "</s>", "<turn|>"], eos=3, eot=4)
    assert pairs(ours, theirs) == {0: 1, 1: 2, 2: 4, 3: 3}


def test_padding_is_never_shared() -> None:
    ours = vocabulary("a", "[PAD0]")
    theirs = replace(vocabulary("[PAD0]", "a"), types=(TOKEN_UNUSED, TOKEN_NORMAL))
    assert pairs(ours, theirs) == {0: 1}


@given(st.lists(st.binary(min_size=1, max_size=3), unique=True, max_size=20), st.randoms())
def test_a_reordered_vocabulary_is_shared_completely(words: list[bytes], random: Random) -> None:
    texts = [word.hex() for word in words]
    order = list(range(len(texts)))
    random.shuffle(order)
    other = vocabulary(*(texts[i] for i in order))
    assert pairs(vocabulary(*texts), other) == {i: order.index(i) for i in range(len(texts))}


def test_the_pair_check_tells_the_share(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf")
    drafter = write_tiny_gguf(tmp_path / "drafter.gguf", tokens=["h", "e", "Ġ"])
    report = shared_tokens(target, drafter)
    assert report.shared == 6 and report.share_of_drafter == 1.0  # three of them control tokens
    assert not report.ok and "in common" in report.reason
    with pytest.raises(IncompatiblePairError, match="cannot draft"):
        require_shared(target, drafter)
    assert require_shared(drafter, target).share_of_target == 1.0


# In step with the text


class Words:
    """A vocabulary of given texts; tokenizes by the longest match."""

    def __init__(self, *texts: bytes, control: Sequence[bytes] = (), bos: int = -1) -> None:
        self.texts = [*texts, *control]
        self.bos = bos
        self.adds_bos = bos >= 0
        self._plain = len(texts)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self.texts[token] if special or token < self._plain else b""

    def is_control(self, token: int) -> bool:
        return token >= self._plain

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert not add_special and not parse_special
        data, ids = text.encode(), []
        while data:
            known = [i for i, t in enumerate(self.texts[: self._plain]) if data.startswith(t)]
            ids.append(max(known, key=lambda i: len(self.texts[i])))
            data = data[len(self.texts[ids[-1]]) :]
        return ids

    def as_gguf(self) -> GgufVocabulary:
        types = [TOKEN_NORMAL] * self._plain + [TOKEN_CONTROL] * (len(self.texts) - self._plain)
        return GgufVocabulary(tuple(self.texts), tuple(types), None, None, None, False, "llama", "")


LETTERS = [bytes([b]) for b in b" abcdehilorw\n"]
TARGET = Words(*LETTERS, b" hello", b" world", b"\xe2", b"\x82\xac", control=[b"<turn>", b"<x>"])
DRAFTER = Words(
    *reversed(LETTERS), b" hell", b"orld", "€".encode(), b"\xe2", b"\x82", b"\xac", b"<",
    b">", b"x", control=[b"<s>", b"<turn>"], bos=-1,
)  # fmt: skip


def translation(drafter: Words = DRAFTER) -> TranslatedTokens:
    return TranslatedTokens(map_tokens(TARGET.as_gguf(), drafter.as_gguf()), TARGET, drafter)


def ids(*texts: bytes) -> list[int]:
    return [TARGET.texts.index(text) for text in texts]


def shown(tokens: Sequence[int]) -> list[bytes]:
    return [DRAFTER.texts[token] for token in tokens]


def test_a_prompt_is_split_as_the_drafter_splits_it() -> None:
    one = translation()
    prompt = ids(b"<turn>", b" ", b"h", b"e", b"l", b"l", b"<turn>", b" world")
    one.begin(prompt)
    assert shown(one.follow(prompt)) == [b"<turn>", b" hell", b"<turn>", b" ", b"w", b"orld"]


def test_a_control_token_that_only_one_side_has_is_read_as_text() -> None:
    one = translation()
    prompt = ids(b"<x>", b"a")
    one.begin(prompt)
    assert shown(one.follow(prompt)) == [b"<", b"x", b">", b"a"]


def test_an_unknown_token_is_read_again_from_the_start_of_its_word() -> None:
    one = translation()
    text = ids(b"a", b" ", b"h", b"e")
    one.begin(text)
    assert shown(one.follow(text)) == [b"a", b" ", b"h", b"e"]
    text += ids(b"l", b"l")
    assert shown(one.follow(text)) == [b"a", b" ", b"h", b"e", b"l", b"l"]
    text += ids(b" world")
    assert shown(one.follow(text)) == [b"a", b" ", b"h", b"e", b"l", b"l", b" ", b"w", b"orld"]
    text = ids(b"a", b" ", b"h", b"e", b" hello")
    assert shown(one.follow(text))[-2:] == [b" hell", b"o"]


def test_a_character_in_pieces_goes_byte_by_byte_until_it_is_whole() -> None:
    one = translation()
    text = ids(b"a", b"\xe2")
    one.begin(ids(b"a"))
    assert shown(one.follow(text)) == [b"a", b"\xe2"]
    assert b"".join(shown(one.follow([*text, *ids(b"\x82\xac")]))) == "a€".encode()


def test_a_chat_that_grows_keeps_its_translation_and_an_edited_one_does_not() -> None:
    one = translation()
    text = ids(b" ", b"h", b"e", b"l")
    one.begin(text)
    grown = [*text, *ids(b"l", b"o")]
    one.follow(grown)
    one.begin([*grown, *ids(b"<turn>", b"a")])
    assert shown(one.follow([*grown, *ids(b"<turn>", b"a")]))[:4] == [b" ", b"h", b"e", b"l"]
    edited = ids(b"b", b" ", b"h", b"e", b"l", b"l")
    one.begin(edited)
    assert shown(one.follow(edited)) == [b"b", b" hell"]


def test_the_drafter_gets_its_begin_of_text() -> None:
    with_bos = Words(*DRAFTER.texts[:-2], control=DRAFTER.texts[-2:], bos=len(DRAFTER.texts) - 2)
    one = translation(with_bos)
    one.begin(ids(b"a"))
    assert shown(one.follow(ids(b"a"))) == [b"<s>", b"a"]


@given(st.lists(st.sampled_from(range(len(TARGET.texts) - 4)), min_size=1, max_size=40))
def test_the_drafter_always_reads_the_same_text(text: list[int]) -> None:
    """Whole characters only; control tokens apart."""
    one = translation()
    one.begin(text[:1])
    for end in range(1, len(text) + 1):
        read = b"".join(shown(one.follow(text[:end])))
        assert read == b"".join(TARGET.texts[token] for token in text[:end])


def test_logits_go_to_the_shared_tokens_only() -> None:
    one = translation()
    row = one.logits(np.arange(len(DRAFTER.texts), dtype=np.float32))
    for token, text in enumerate(TARGET.texts):
        same = DRAFTER.texts.index(text) if text in DRAFTER.texts and text != b"<s>" else -1
        assert row[token] == (same if same >= 0 else -np.inf)
