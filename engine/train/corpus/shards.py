"""A corpus on disk: documents with the target's features, in memory-mapped shards.

`<corpus>/shards/00000/` and so on, each written under another name and renamed when it is complete,
so that whatever stops a writer, only whole shards are there. In a shard, with n tokens in all:

tokens.npy int32 [n]; starts.npy int64 [documents + 1]; heldout.npy bool [documents];
answer.npy bool [n]: the token is text to be learned, not context;
hidden.npy float16 [n, H]: the final hidden state (after the output norm) at that token;
layers.npy float16 [n, 3 H]: inputs of the layers in corpus.json, side by side;
top_ids.npy int32 [n, 16], top_logprobs.npy float16 [n, 16]: the target's likeliest next tokens,
descending, log-probabilities over the whole vocabulary at temperature 1;
shard.json: ids and categories of the documents, counts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.data.documents import parse_json
from engine.data.errors import RunError
from engine.files.disk import has_ended
from engine.files.stored import MISREAD
from engine.train.corpus.disk import bytes_per_token, require_disk

_ARRAYS = ("tokens", "answer", "hidden", "layers", "top_ids", "top_logprobs")
_PART = ".part-"


@dataclass(frozen=True, slots=True)
class Document:
    """One text and what the target made of it; the arrays are described at the top of the file."""

    id: str
    category: str
    heldout: bool
    tokens: NDArray[np.int32]
    answer: NDArray[np.bool_]
    hidden: NDArray[np.float16]
    layers: NDArray[np.float16]
    top_ids: NDArray[np.int32]
    top_logprobs: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.tokens)


class ShardWriter:
    """Keeps documents in memory until `write`, which makes a shard of them in one step."""

    def __init__(self, folder: Path, hidden_size: int) -> None:
        self._shards = folder / "shards"
        self._hidden_size = hidden_size
        self._documents: list[Document] = []
        self._shards.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(self._shards)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def answer_tokens(self) -> int:
        return sum(int(one.answer.sum()) for one in self._documents)

    def add(self, document: Document) -> None:
        expected = (len(document), self._hidden_size)
        if document.hidden.shape != expected:
            raise ValueError(f"hidden states of shape {document.hidden.shape}, not {expected}")
        self._documents.append(document)

    def write(self) -> Path | None:
        """The new shard's folder, None if there are no documents. RunError when the disk is full.

        After an error the documents are still here.
        """
        if not self._documents:
            return None
        tokens = sum(map(len, self._documents))
        require_disk(self._shards, tokens * bytes_per_token(self._hidden_size))
        part = self._shards / f"{_PART}{os.getpid()}"
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            self._fill(part)
            shard = _publish(part, self._shards)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            raise RunError(
                f"a shard could not be written to {self._shards} ({error.strerror or error}); "
                "what was complete before is kept: free some space and go on"
            ) from error
        self._documents.clear()
        return shard

    def _fill(self, folder: Path) -> None:
        documents = self._documents
        for name in _ARRAYS:
            _save(folder, name, np.concatenate([getattr(one, name) for one in documents]))
        _save(folder, "starts", np.cumsum([0, *map(len, documents)], dtype=np.int64))
        _save(folder, "heldout", np.array([one.heldout for one in documents], np.bool_))
        content = {
            "id": [one.id for one in documents],
            "category": [one.category for one in documents],
            "tokens": sum(map(len, documents)),
            "answer_tokens": self.answer_tokens,
            "heldout_answer_tokens": sum(int(d.answer.sum()) for d in documents if d.heldout),
        }
        with (folder / "shard.json").open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())


def _save(folder: Path, name: str, array: NDArray[Any]) -> None:
    with (folder / f"{name}.npy").open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def _publish(part: Path, shards: Path) -> Path:
    """Renames to the first free number; several writers may try at once."""
    number = 0
    while True:
        shard = shards / f"{number:05d}"
        if not shard.exists():
            try:
                part.rename(shard)
                return shard
            except OSError:
                if not shard.exists():  # not taken by another writer: a real failure
                    raise
        number += 1


def _remove_abandoned(shards: Path) -> None:
    """What writers left behind that no longer run."""
    for part in shards.glob(f"{_PART}*"):
        owner = part.name.removeprefix(_PART)
        if has_ended(owner):
            shutil.rmtree(part, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of all complete shards. answer_tokens: those to be learned, held-out ones included."""

    documents: int
    tokens: int
    answer_tokens: int
    heldout_answer_tokens: int


@dataclass(frozen=True, slots=True)
class _Shard:
    folder: Path
    ids: tuple[str, ...]
    categories: tuple[str, ...]
    heldout: NDArray[np.bool_]
    starts: NDArray[np.int64]
    arrays: dict[str, NDArray[Any]]

    def document(self, index: int) -> Document:
        part = slice(int(self.starts[index]), int(self.starts[index + 1]))
        return Document(
            self.ids[index],
            self.categories[index],
            bool(self.heldout[index]),
            *(self.arrays[name][part] for name in _ARRAYS),
        )


class Corpus:
    """The first `shards` complete shards of a folder, None for all that are there now; documents
    are read when they are used."""

    def __init__(self, folder: Path, shards: int | None = None) -> None:
        self.folder = folder
        self._shards = [_open_shard(shard) for shard in shard_folders(folder)[:shards]]

    def documents(self, heldout: bool | None) -> Sequence[Document]:
        """Views into the files; heldout None: all of them."""
        return [
            shard.document(index)
            for shard in self._shards
            for index in range(len(shard.ids))
            if heldout is None or bool(shard.heldout[index]) == heldout
        ]


def shard_folders(folder: Path) -> list[Path]:
    """The complete shards of a corpus, in order; none if it does not exist."""
    shards = folder / "shards"
    return sorted(shards.glob("[0-9]*")) if shards.is_dir() else []


def shard_notes(folder: Path, shards: int | None = None) -> Iterator[dict[str, Any]]:
    """shard.json of each complete shard. RunError when one is damaged."""
    for shard in shard_folders(folder)[:shards]:
        try:
            yield _note(shard)
        except (OSError, *MISREAD) as error:
            raise _unreadable(shard, error) from error


def _note(shard: Path) -> dict[str, Any]:
    """shard.json. OSError, or one of MISREAD when it is damaged."""
    note = parse_json((shard / "shard.json").read_bytes(), repair=True)
    counts = (note["tokens"], note["answer_tokens"], note["heldout_answer_tokens"])
    texts = (*note["id"], *note.get("category", ()))
    if not all(isinstance(one, int) for one in counts) or not all(
        isinstance(one, str) for one in texts
    ):
        raise TypeError("shard.json has a value of the wrong type")
    return dict(note)


def _unreadable(shard: Path, error: Exception) -> RunError:
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return RunError(f"{shard} cannot be read ({error.strerror or error})")
    return RunError(f"{shard} is damaged ({error}); delete that folder")


def count(folder: Path, shards: int | None = None) -> Counts:
    """Of the first `shards` shards, None for all."""
    notes = list(shard_notes(folder, shards))
    return Counts(
        sum(len(note["id"]) for note in notes),
        sum(note["tokens"] for note in notes),
        sum(note["answer_tokens"] for note in notes),
        sum(note["heldout_answer_tokens"] for note in notes),
    )


def _open_shard(shard: Path) -> _Shard:
    try:
        note = _note(shard)
        arrays = {name: np.load(shard / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        starts, heldout = np.load(shard / "starts.npy"), np.load(shard / "heldout.npy")
    except (OSError, *MISREAD) as error:
        raise _unreadable(shard, error) from error
    return _Shard(shard, tuple(note["id"]), tuple(note["category"]), heldout, starts, arrays)
