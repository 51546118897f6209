"""Which drafter may draft for which target, by the bytes of their tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.data.errors import IncompatiblePairError
from engine.files.gguf import inspect
from engine.files.gguf_types import TOKEN_CONTROL, TOKEN_NORMAL, TOKEN_UNUSED
from engine.models.pair import check_files, check_pair, require_pair
from engine.models.roles import check_models
from engine.models.vocabulary import GgufVocabulary
from tests.tiny_gguf import write_tiny_gguf

WORDS = tuple(f"w{number}".encode() for number in range(2000))
BASE = GgufVocabulary(
    tokens=(*WORDS, b"<s>", b"</s>"),
    types=(*(TOKEN_NORMAL,) * len(WORDS), TOKEN_CONTROL, TOKEN_CONTROL),
    bos=2000,
    eos=2001,
    eot=None,
    add_bos=False,
    model="gpt2",
    pre="default",
)


def renamed(count: int, start: int = 0) -> GgufVocabulary:
    changed = {start + index: b"other%d" % index for index in range(count)}
    return replace(BASE, tokens=tuple(changed.get(i, t) for i, t in enumerate(BASE.tokens)))


def padded(count: int) -> GgufVocabulary:
    padding = tuple(b"[PAD%d]" % index for index in range(count))
    return replace(BASE, tokens=BASE.tokens + padding, types=BASE.types + (TOKEN_UNUSED,) * count)


def test_the_same_vocabulary_is_a_pair_without_notes() -> None:
    report = check_pair(BASE, BASE)
    assert (report.ok, report.reason, report.notes) == (True, "", ())
    assert report.draft_limit == report.shared == 2002
    assert report.to_json()["ok"] is True


@pytest.mark.parametrize("larger", ["target", "drafter"])
def test_padding_passes_and_limits_what_is_drafted(larger: str) -> None:
    pair = (padded(64), BASE) if larger == "target" else (BASE, padded(64))
    report = check_pair(*pair)
    assert report.ok
    assert report.draft_limit == 2002
    assert "ids from 2,002 on are never drafted" in report.notes[0]


def test_different_tokens_are_counted() -> None:
    report = check_pair(BASE, renamed(1203))
    assert not report.ok
    assert report.reason == "tokenizer differs at 1,203 tokens"
    assert report.different == 1203
    assert check_pair(BASE, renamed(1)).reason == "tokenizer differs at 1 token"


def test_other_sizes_with_other_tokens_are_named_by_size() -> None:
    small = replace(renamed(50), tokens=renamed(50).tokens[:500], types=BASE.types[:500], eos=None)
    assert check_pair(BASE, small).reason == "vocabulary 500 against 2,002"


def test_control_tokens_may_differ_and_are_reported() -> None:
    other = replace(renamed(2, start=2000), bos=None, eos=2000, add_bos=True, pre="other")
    report = check_pair(BASE, other)
    assert report.ok
    assert (report.different, report.different_special) == (0, 2)
    text = "\n".join(report.notes)
    for words in (
        "2 control or unused tokens differ",
        "begin-of-text token is none against 2000 <s>",
        "end-of-text token is 2000 other0 against 2001 </s>",
        "only one of the two adds a begin-of-text token",
        "tokenizer gpt2/other against gpt2/default",
    ):
        assert words in text


def test_no_vocabulary_is_no_pair() -> None:
    empty = replace(BASE, tokens=(), types=(), bos=None, eos=None)
    assert not check_pair(BASE, empty).ok


def test_files_are_compared_and_remembered(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf", vocabulary_size=320)
    drafter = write_tiny_gguf(tmp_path / "drafter.gguf", layers=1, noise=0.1)
    report = check_files(target, drafter)
    assert (report.ok, report.draft_limit) == (True, 283)
    assert check_files(target, drafter) is report
    other = write_tiny_gguf(tmp_path / "other.gguf", tokens=[f"t{n}" for n in range(280)])
    with pytest.raises(IncompatiblePairError, match=r"other.gguf cannot draft for target.gguf"):
        require_pair(target, other)


def test_files_that_are_no_plain_models_are_refused(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf")
    head = write_tiny_gguf(tmp_path / "head.gguf", architecture="eagle3")
    encoder = write_tiny_gguf(tmp_path / "encoder.gguf", architecture="nomic-bert")
    assert check_files(target, head).reason == "needs EAGLE-3"
    assert check_models(inspect(target), inspect(encoder)) == (
        "an embedding model, not a plain drafter"
    )
    assert check_models(inspect(encoder), inspect(target)) == "an embedding model, not a target"
    assert check_models(inspect(target), inspect(target)) == ""
