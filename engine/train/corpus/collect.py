"""Collects a corpus: claims blocks of items, runs them through one generator or two, writes shards.

Two where documents for training come from a faster copy of the weights: the drafter will read the
features of the target's own file, so held-out documents come from the file itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.data.request import Message
from engine.train.corpus.batched_generator import BatchedGenerator, Finished
from engine.train.corpus.claims import Claims
from engine.train.corpus.shards import ShardWriter, shard_folders, shard_notes
from engine.train.corpus.work import Item

SHARD_DOCUMENTS = 64
_CHECK_SECONDS = 5.0
_STARTED_AT_ONCE = 8
"""Documents begun between two looks at the clock and at the wish to stop."""


@dataclass(frozen=True, slots=True)
class Goal:
    """answer_tokens: of the whole corpus, all collectors and earlier runs together.

    seconds: for this run; None for no limit.
    """

    answer_tokens: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CollectProgress:
    """Of this collector in this run. corpus_tokens: answer tokens in complete shards, by anyone."""

    documents: int
    answer_tokens: int
    corpus_tokens: int
    seconds: float


class Collector:
    """work: blocks of documents, each for one collector. generators: for all documents, or for
    training and for held-out ones.

    run() raises RunError when the disk is full.
    """

    def __init__(
        self,
        folder: Path,
        work: Sequence[Sequence[Item]],
        generators: Sequence[BatchedGenerator],
        hidden_size: int,
    ) -> None:
        self._folder = folder
        self._blocks = work
        self._generators = generators
        self._waiting = tuple(deque[Item]() for _ in generators)
        self._claims = Claims(folder / "claims")
        self._writer = ShardWriter(folder, hidden_size)
        self._next_block = 0
        self._read: set[str] = set()
        self._known: set[str] = set()
        self._corpus_tokens = 0
        self._documents = 0
        self._answer_tokens = 0
        self._refresh()

    def run(
        self,
        goal: Goal,
        should_stop: Callable[[], bool],
        report: Callable[[CollectProgress], None],
    ) -> CollectProgress:
        """Until the goal is reached, there is nothing left to do, or it should stop."""
        start = checked = time.monotonic()
        while self._step() and not should_stop():
            now = time.monotonic()
            if goal.seconds is not None and now - start >= goal.seconds:
                break
            if now - checked >= _CHECK_SECONDS:
                checked = now
                self._refresh()
                report(self._progress(now - start))
            if self._corpus_tokens + self._unwritten() >= goal.answer_tokens:
                break
        for generator in self._generators:
            for one in generator.cut():
                if not one.item.opening:
                    self._writer.add(one.document)
                    self._documents += 1
        self._write()
        self._refresh()
        return self._progress(time.monotonic() - start)

    def close(self) -> None:
        self._claims.close()

    def _unwritten(self) -> int:
        return self._writer.answer_tokens + sum(
            generator.answer_tokens for generator in self._generators
        )

    def _progress(self, seconds: float) -> CollectProgress:
        tokens = self._answer_tokens + self._unwritten()
        return CollectProgress(self._documents, tokens, self._corpus_tokens, seconds)

    def _step(self) -> bool:
        """A pass of each generator; False when everything is done."""
        busy = False
        for generator, waiting in zip(self._generators, self._waiting, strict=True):
            self._fill(generator, waiting)
            for one in generator.step():
                self._take(one)
            busy = busy or bool(waiting) or generator.free < generator.size
        if len(self._writer) >= SHARD_DOCUMENTS:
            self._write()
        return busy or self._next_block < len(self._blocks)

    def _fill(self, generator: BatchedGenerator, waiting: deque[Item]) -> None:
        for _ in range(_STARTED_AT_ONCE):
            if not generator.free:
                return
            # The held-out generator waits for what comes along; the other one asks for more.
            if not waiting and (generator is not self._generators[0] or not self._claim()):
                return
            if not waiting:
                continue
            finished = generator.admit(waiting.popleft())
            if finished is not None:
                self._take(finished)

    def _claim(self) -> bool:
        """Takes the next block that is nobody's and not done; False when there is none."""
        while self._next_block < len(self._blocks):
            block = self._blocks[self._next_block]
            self._next_block += 1
            # Finished blocks need no lock: each one takes a file.
            if not self._unknown(block) or not self._claims.take(block[0].id):
                continue
            self._refresh()
            left = self._unknown(block)
            for item in left:
                self._wait(item)
            if left:
                return True
        return False

    def _unknown(self, block: Sequence[Item]) -> list[Item]:
        return [item for item in block if item.id not in self._known]

    def _take(self, finished: Finished) -> None:
        item = finished.item
        if item.opening:
            question = (item.opening + finished.answer).strip()
            asked = Item(item.id, item.category, (Message("user", question),))
            self._wait(asked)
            return
        self._writer.add(finished.document)
        self._documents += 1
        if item.follow_up:
            said = Message("assistant", finished.answer.strip())
            messages = (*item.messages, said, Message("user", item.follow_up))
            self._wait(Item(f"{item.id}+", item.category, messages))

    def _wait(self, item: Item) -> None:
        self._waiting[-1 if item.heldout else 0].append(item)

    def _write(self) -> None:
        tokens = self._writer.answer_tokens
        self._writer.write()
        self._answer_tokens += tokens

    def _refresh(self) -> None:
        """Reads the notes of shards that have come since the last time."""
        if {shard.name for shard in shard_folders(self._folder)} <= self._read:
            return
        notes = list(shard_notes(self._folder))
        self._read = {shard.name for shard in shard_folders(self._folder)[: len(notes)]}
        self._known = {name for note in notes for name in note["id"]}
        self._corpus_tokens = sum(note["answer_tokens"] for note in notes)
