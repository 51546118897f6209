"""What is kept of a training that has not ended, so that `--resume` goes on with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.data.errors import BadOptionError
from engine.files.stored import read_stored, write_stored
from engine.train.corpus.claims import Claims
from engine.train.training import HeadKind


@dataclass(frozen=True, slots=True)
class Progress:
    """collecting: seconds spent on it. shards: of the corpus that is learned from, None before."""

    collecting: float = 0.0
    shards: int | None = None


class Unfinished:
    """checkpoint: file of the trainer's state, which is there once training has begun."""

    def __init__(self, corpus: Path, kind: HeadKind, name: str) -> None:
        self._folder = corpus / "unfinished"
        self._name = f"{kind}-{name}"
        self.checkpoint = self._folder / f"{self._name}.pt"
        self._note = self._folder / f"{self._name}.json"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """BadOptionError while another process works on it."""
        claims = Claims(self._folder / "claims")
        try:
            if not claims.take(self._name):
                raise BadOptionError(
                    f"{self._name} is being trained just now; choose another --out"
                )
            yield
        finally:
            claims.close()

    def read(self) -> Progress:
        """What an earlier run reached; the beginning if there was none."""
        return read_stored(self._note, _progress, Progress()).content

    def write(self, progress: Progress) -> None:
        write_stored(self._note, asdict(progress))

    def remove(self) -> None:
        """With what a save that was killed has left."""
        for file in (self.checkpoint, self.checkpoint.with_suffix(".pt.unfinished"), self._note):
            file.unlink(missing_ok=True)


def _progress(content: Any) -> Progress:
    shards = content["shards"]
    return Progress(float(content["collecting"]), None if shards is None else int(shards))


def unfinished_names(corpus: Path, kind: HeadKind) -> list[str]:
    """Of the trainings of that kind that have begun and have no result."""
    files = (corpus / "unfinished").glob(f"{kind}-*")
    return sorted({f.stem.removeprefix(f"{kind}-") for f in files if f.suffix in (".pt", ".json")})
