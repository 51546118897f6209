"""Drafters that differ from the target by a few tokens: used through the others, and saying so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.model_service import LibraryModelService
from engine.cli import main
from engine.data.errors import IncompatiblePairError
from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.request import DraftParams, GenerateRequest, LoadRequest, SamplingParams
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.models.pair import NEARLY_ALL, check_files, require_pair
from engine.models.token_map import map_tokens, shared_tokens
from engine.models.vocabulary import GgufVocabulary
from engine.serving.session import Session
from tests.tiny_gguf import TinyModel, write_tiny_gguf

NORMAL = [text for text, kind in zip(*TinyModel().vocabulary(), strict=True) if kind == 1]
ALL = len(TinyModel().vocabulary()[0])


def other_tokens(count: int) -> list[str]:
    """Of the tiny models, with so many of the last ones replaced."""
    return [*NORMAL[: len(NORMAL) - count], *(f"other{number}" for number in range(count))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_tiny_gguf(folder / "target.gguf")
    for count in (1, 5, 60):
        write_tiny_gguf(folder / f"other-{count}.gguf", tokens=other_tokens(count), noise=0.1)
    shifted = [NORMAL[-1], *NORMAL[:-1]]
    write_tiny_gguf(folder / "shifted.gguf", tokens=shifted, noise=0.1)
    strange = [f"strange{number}" for number in range(len(NORMAL))]
    write_tiny_gguf(folder / "strange.gguf", tokens=strange)
    return folder


@pytest.fixture
def session(library: Library, tmp_path: Path) -> Session:
    return Session(library, DataFolder(tmp_path / "data"), AbortFlag())


def load(session: Session, target: Path, drafter: str | None) -> LoadedSummary:
    request = LoadRequest(str(target), drafter, context_length=256, threads=1)
    return session.load(request, lambda _label, _fraction: None)


def reply(session: Session, speculate: str) -> Finished:
    request = GenerateRequest(
        raw_prompt="the old hello in the other hello",
        max_tokens=40,
        sampling=SamplingParams(temperature=0.0),
        drafting=DraftParams("always" if speculate == "always" else "off", 4),
    )
    finished = list(session.generate(request, lambda: False))[-1]
    assert isinstance(finished, Finished)
    return finished


@pytest.mark.parametrize(
    ("name", "common"), [("other-1", ALL - 1), ("other-5", ALL - 5), ("shifted", ALL)]
)
def test_nearly_all_in_common_is_enough(folder: Path, name: str, common: int) -> None:
    report = check_files(folder / "target.gguf", folder / f"{name}.gguf")
    assert (report.ok, report.reason, report.common) == (True, "", common)
    assert f"it drafts the {common:,} tokens that both have" in report.notes[0]
    assert common >= NEARLY_ALL * ALL


@pytest.mark.parametrize("name", ["other-1", "other-5", "shifted"])
def test_it_drafts_and_the_text_is_the_targets(folder: Path, session: Session, name: str) -> None:
    drafter = f"model:{folder / name}.gguf"
    summary = load(session, folder / "target.gguf", drafter)
    assert [notice for notice in summary.notices if notice.startswith(f"{drafter}: tokenizer")]
    assert "tokens that both have" in summary.notices[0]
    drafted, plain = reply(session, "always"), reply(session, "off")
    assert drafted.tokens == plain.tokens
    assert drafted.stats.proposed > 0
    if name != "shifted":  # whose weights belong to other tokens
        assert drafted.stats.accepted > 5
    load(session, folder / "target.gguf", f"tli:{folder / name}.gguf")
    across = reply(session, "always")
    assert (across.tokens, across.stats.accepted) == (plain.tokens, drafted.stats.accepted)
    session.unload()


def test_a_pair_of_one_vocabulary_says_nothing(folder: Path, session: Session) -> None:
    write_tiny_gguf(folder / "same.gguf", noise=0.1)
    summary = load(session, folder / "target.gguf", f"model:{folder / 'same.gguf'}")
    assert summary.notices == ()
    session.unload()


def test_too_little_in_common_names_the_way_across(folder: Path, session: Session) -> None:
    target, drafter = folder / "target.gguf", folder / "other-60.gguf"
    assert not check_files(target, drafter).ok
    with pytest.raises(IncompatiblePairError) as told:
        load(session, target, f"model:{drafter}")
    assert str(told.value) == (
        f"other-60.gguf cannot draft for target.gguf: tokenizer differs at 60 tokens; as "
        f"tli:{drafter} it can draft the {ALL - 60:,} tokens that both have, 79% of the target's"
    )
    load(session, target, f"tli:{drafter}")
    session.unload()


def test_nothing_in_common_has_no_way(folder: Path) -> None:
    target, drafter = folder / "target.gguf", folder / "strange.gguf"
    assert not shared_tokens(target, drafter).ok
    with pytest.raises(IncompatiblePairError, match="choose a drafter of the target's family"):
        require_pair(target, drafter)


def run_check(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    target = str(folder / "target.gguf")
    code = main(["--data-dir", str(folder / "data"), "models", "check", target, *words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_the_command_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near, far = str(folder / "other-1.gguf"), str(folder / "other-60.gguf")
    code, text = run_check(folder, capsys, near)
    assert code == 0
    assert f"can draft for target: {ALL - 1:,} tokens in common" in text
    assert "note: tokenizer differs at 1 token: it drafts" in text
    code, text = run_check(folder, capsys, near, "--json")
    found = json.loads(text)
    assert (code, found["ok"], found["common"]) == (0, True, ALL - 1)
    assert found["across_tokenizers"]["shared"] == ALL - 1
    code, text = run_check(folder, capsys, far)
    assert code == 2
    assert f"as tli:{far} it can draft" in text


def test_the_page_offers_it_with_a_note(folder: Path, tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    code = main(["--data-dir", str(data.root), "models", "folders", "--add", str(folder)])
    assert code == 0
    models = LibraryModelService(data)
    target, near, far = (str(folder / f"{name}.gguf") for name in ("target", "other-1", "other-60"))
    assert models.obstacle(target, near) is None
    assert "tokens that both have" in models.note(target, near)
    assert models.obstacle(target, far) == "tokenizer differs at 60 tokens"
    assert models.note(target, far) == models.note(target, target) == ""
    assert models.note(target, "nonsense") == ""


def test_byte_tokens_that_are_no_bytes_are_left_out() -> None:
    texts = (b"<0x41>", b"<0xZZ>", b"", b"<0x4", b"word")
    types = (6, 6, 6, 6, 1)
    broken = GgufVocabulary(texts, types, None, None, None, False, "llama", "")
    assert map_tokens(broken, broken).target_ids.tolist() == [0, 4]
