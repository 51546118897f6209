"""Targets with a sliding window or a recurrent state: drafted for exactly, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.data.errors import BadOptionError, EngineError, IncompatiblePairError
from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.request import DraftParams, GenerateRequest, LoadRequest, SamplingParams
from engine.files.gguf import inspect
from engine.llama.abort import AbortFlag
from engine.llama.context import ContextOptions
from engine.llama.library import Library
from engine.serving.session import Session
from tests.eagle_files import EagleSizes, write_eagle
from tests.engine.conftest import THREADS
from tests.odd_gguf import WINDOW, write_hybrid, write_recurrent, write_sliding

PROMPTS = (
    "The old lighthouse keeper, the old lighthouse keeper, the old",
    "A tree, a hill, a river, a tree, a hill",
    "One two three four five six seven eight one two three",
)
CHAINS = ("ngram", "first(ngram,recycle)")
TREES = ("recycle:tree=12", "union(ngram,recycle)")
EAGLE = ("eagle:{}", "eagle:tree=9:{}", "tree(eagle:{})")


@pytest.fixture
def session(library: Library, tmp_path: Path) -> Iterator[Session]:
    session = Session(library, DataFolder(tmp_path / "data"), AbortFlag())
    yield session
    session.unload()


def load(session: Session, target: Path, drafter: str | None) -> None:
    info = inspect(target)
    sizes = EagleSizes(info.embedding_length, info.vocabulary_size, likely=True)
    layer = write_eagle(target.with_name("eagle"), sizes)
    expression = drafter.format(layer) if drafter else None
    request = LoadRequest(str(target), expression, context_length=256, threads=THREADS)
    session.load(request, lambda _label, _fraction: None)


def reply(session: Session, prompt: str = PROMPTS[0]) -> Finished:
    """Greedy, twice as long as the window."""
    request = GenerateRequest(
        raw_prompt=prompt,
        max_tokens=2 * WINDOW + 8,
        sampling=SamplingParams(temperature=0.0),
        drafting=DraftParams("always", 6),
    )
    finished = list(session.generate(request, lambda: False))[-1]
    assert isinstance(finished, Finished)
    return finished


def assert_plain(session: Session, target: Path, drafters: tuple[str, ...]) -> None:
    load(session, target, None)
    plain = [reply(session, prompt).tokens for prompt in PROMPTS]
    for drafter in drafters:
        load(session, target, drafter)
        drafted = [reply(session, prompt) for prompt in PROMPTS]
        assert [one.tokens for one in drafted] == plain, drafter
        rejected = sum(one.stats.proposed - one.stats.accepted for one in drafted)
        assert rejected > 0, "something was rolled back"


def test_chains_and_trees_for_a_sliding_window(session: Session, tmp_path: Path) -> None:
    target = write_sliding(tmp_path / "target.gguf")
    assert inspect(target).sliding_window == WINDOW
    assert_plain(session, target, CHAINS + TREES + EAGLE)


def test_chains_for_a_state_that_can_go_back(session: Session, tmp_path: Path) -> None:
    target = write_hybrid(tmp_path / "target.gguf")
    assert_plain(session, target, CHAINS)
    plain = reply(session)
    with pytest.raises(IncompatiblePairError, match="no logits beside the hidden states"):
        load(session, target, EAGLE[0])
    for drafter in TREES + EAGLE[1:]:
        with pytest.raises(IncompatiblePairError, match="several branches at once"):
            load(session, target, drafter)
        assert reply(session).tokens == plain.tokens, "what was loaded is still there"


def test_passes_are_measured_as_wide_as_a_state_can_go_back(
    session: Session, tmp_path: Path
) -> None:
    target = write_hybrid(tmp_path / "target.gguf")
    request = LoadRequest(str(target), "ngram", context_length=256, threads=THREADS)
    speed = session.calibrate(request, lambda _label, _fraction: None).speed
    assert speed is not None and not speed.plain_attention
    assert max(speed.passes) == ContextOptions(256, 65, THREADS).max_rollback


@pytest.mark.parametrize("drafter", ["ngram", "recycle:tree=12"])
def test_nothing_drafts_for_a_state_that_cannot_go_back(
    session: Session, tmp_path: Path, drafter: str
) -> None:
    target = write_recurrent(tmp_path / "target.gguf")
    load(session, target, None)
    plain = reply(session)
    expected: type[EngineError] = BadOptionError if drafter == "ngram" else IncompatiblePairError
    with pytest.raises(expected, match="recurrent state"):
        load(session, target, drafter)
    assert reply(session).tokens == plain.tokens
