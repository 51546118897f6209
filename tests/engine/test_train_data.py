"""The data that drafters learn from: draws of tokens, shards of documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.data.errors import RunError
from engine.train.corpus.claims import Claims
from engine.train.corpus.disk import LIKELIEST, require_disk
from engine.train.corpus.likely import draw_nucleus, largest, log_sum_exp
from engine.train.corpus.shards import Corpus, Document, ShardWriter, count

HIDDEN = 64


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


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, HIDDEN)
    writer.add(document("a", 5))
    shard = writer.write()
    assert shard is not None
    (shard / "shard.json").write_text(json.dumps({"id": ["a"]})[:-3])
    with pytest.raises(RunError, match="00000 is damaged"):
        count(tmp_path)
