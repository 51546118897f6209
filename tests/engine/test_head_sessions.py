"""Loads with heads, as the engine process makes them: load, reply, switch, refuse, unload."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.data.errors import BadOptionError, EngineError, IncompatiblePairError
from engine.data.events import Finished, Notice
from engine.data.folders import DataFolder
from engine.data.request import DraftParams, GenerateRequest, LoadRequest, SamplingParams, Speculate
from engine.files.gguf import inspect
from engine.heads.medusa_file import trimmed, write_medusa
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.serving.session import Session
from tests.eagle3_gguf import Eagle3Shape, write_eagle3
from tests.engine.conftest import THREADS
from tests.engine.head_files import medusa_arrays, medusa_heads
from tests.tiny_gguf import write_tiny_gguf


@pytest.fixture
def session(library: Library, tmp_path: Path) -> Iterator[Session]:
    session = Session(library, DataFolder(tmp_path / "data"), AbortFlag())
    yield session
    session.unload()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "target.gguf", layers=5)


def load(session: Session, target: Path, drafter: str | None) -> None:
    request = LoadRequest(str(target), drafter, context_length=256, threads=THREADS)
    session.load(request, lambda _label, _fraction: None)


def reply(session: Session, speculate: bool = True) -> Finished:
    drafting = DraftParams("always" if speculate else "off", 4)
    request = GenerateRequest(
        raw_prompt="The old lighthouse keeper",
        max_tokens=30,
        sampling=SamplingParams(temperature=0.0),
        drafting=drafting,
    )
    events = list(session.generate(request, lambda: False))
    assert not [event for event in events if isinstance(event, Notice)]
    assert isinstance(events[-1], Finished)
    return events[-1]


def heads_for(target: Path, kind: str, tokens: tuple[int, ...]) -> Path:
    info = inspect(target)
    hidden, size = info.embedding_length, info.vocabulary_size
    ids = sorted(set(tokens))
    path = target.with_name(f"{kind}.gguf")
    if kind == "eagle3":
        return write_eagle3(path, Eagle3Shape(hidden, size, (1, 2, 4), ids))
    write_medusa(path, trimmed(medusa_heads(medusa_arrays(hidden, size)), np.array(ids)))
    return path


@pytest.mark.parametrize("kind", ["eagle3", "medusa"])
def test_loads_with_heads(session: Session, target: Path, kind: str) -> None:
    load(session, target, None)
    plain = reply(session)
    heads = heads_for(target, kind, plain.tokens)
    for drafter in (f"{kind}:{heads}", f"first(ngram,{kind}:{heads})", f"{kind}:tree=12:{heads}"):
        load(session, target, drafter)
        summary = session.summary
        assert summary is not None and summary.drafters[0].memory_bytes > 0
        drafted = [reply(session, speculate) for speculate in (True, False, True)]
        assert [one.tokens for one in drafted] == [plain.tokens] * 3
        assert drafted[0].stats.proposed > 0 and drafted[1].stats.proposed == 0
        assert drafted[2].reused_prompt_tokens == drafted[0].prompt_tokens - 1
    load(session, target, None)
    assert reply(session).tokens == plain.tokens


@pytest.mark.parametrize("group", ["vote", "mixture", "union", "best", "first"])
def test_ensembles_of_heads(session: Session, target: Path, group: str) -> None:
    """One member reads hidden states, the other the inputs of layers."""
    load(session, target, None)
    plain = reply(session)
    files = {kind: heads_for(target, kind, plain.tokens) for kind in ("medusa", "eagle3")}
    load(session, target, f"{group}(medusa:{files['medusa']},eagle3:{files['eagle3']})")
    for _ in range(2):
        drafted = reply(session)
        assert drafted.tokens == plain.tokens
        assert drafted.stats.proposed > 0
    assert session.summary is not None
    (ensemble,) = session.summary.drafters
    shares = ensemble.by_member()
    assert set(shares) == {f"{kind}:{file}" for kind, file in files.items()}
    assert sum(shares.values()) == ensemble.memory_bytes and min(shares.values()) > 0


def test_an_impossible_load_leaves_the_present_one(session: Session, target: Path) -> None:
    load(session, target, None)
    plain = reply(session)
    small = write_tiny_gguf(target.with_name("small.gguf"), layers=3)
    heads = heads_for(target, "eagle3", plain.tokens)
    refused: list[tuple[str, type[EngineError]]] = [
        (f"eagle3:{heads}", IncompatiblePairError),
        (f"medusa:{heads}", EngineError),
        (f"eagle3:tree=65:{heads}", BadOptionError),
    ]
    for drafter, error in refused:
        with pytest.raises(error):
            load(session, small, drafter)
        assert reply(session).tokens == plain.tokens


def test_typical_acceptance_is_told_and_not_for_strict_numerics(
    session: Session, target: Path
) -> None:
    load(session, target, None)
    heads = heads_for(target, "medusa", reply(session).tokens)
    load(session, target, f"medusa:tree=12:{heads}")

    def typical(temperature: float, speculate: Speculate = "always") -> Finished:
        request = GenerateRequest(
            raw_prompt="The old lighthouse keeper",
            max_tokens=30,
            sampling=SamplingParams(temperature=temperature, seed=1),
            drafting=DraftParams(speculate, 4, acceptance="typical"),
        )
        finished = list(session.generate(request, lambda: False))[-1]
        assert isinstance(finished, Finished)
        return finished

    greedy, drawn = typical(0.0), typical(1.5)
    assert greedy.exact and greedy.tokens == reply(session).tokens
    assert not drawn.exact and drawn.stats.proposed > 0
    assert typical(1.5, "off").exact, "nothing was drafted"
    request = LoadRequest(str(target), "ngram", 256, THREADS, numerics="strict")
    session.load(request, lambda _label, _fraction: None)
    with pytest.raises(BadOptionError, match="strict numerics keep it"):
        typical(1.0)
