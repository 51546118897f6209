"""What is kept of a training that has not ended, so that `--resume` goes on with it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.models.files import write_atomically
from engine.train.training import HeadKind


@dataclass(frozen=True, slots=True)
class Progress:
    """collecting: seconds spent on it. shards: of the corpus that is learned from, None before."""

    collecting: float = 0.0
    shards: int | None = None


class Unfinished:
    """checkpoint: file of the trainer's state, which is there once training has begun."""

    def __init__(self, corpus: Path, kind: HeadKind, name: str) -> None:
        folder = corpus / "unfinished"
        self.checkpoint = folder / f"{kind}-{name}.pt"
        self._file = folder / f"{kind}-{name}.json"

    @property
    def exists(self) -> bool:
        return self._file.is_file() or self.checkpoint.is_file()

    def read(self) -> Progress:
        """What an earlier run reached; the beginning if there was none."""
        if not self._file.is_file():
            return Progress()
        try:
            return Progress(**json.loads(self._file.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            return Progress()  # of another version: then only the time is not known

    def write(self, progress: Progress) -> None:
        write_atomically(self._file, json.dumps(asdict(progress)))

    def remove(self) -> None:
        self.checkpoint.unlink(missing_ok=True)
        self._file.unlink(missing_ok=True)


def unfinished_names(corpus: Path, kind: HeadKind) -> list[str]:
    """Of the trainings of that kind that can be gone on with."""
    files = (corpus / "unfinished").glob(f"{kind}-*.*")
    return sorted({f.stem.removeprefix(f"{kind}-") for f in files if f.suffix in (".pt", ".json")})
