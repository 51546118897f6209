"""What crosses the pipe between Forerun and a download's child process: specs in, events out.

Both directions are JSON lines. The child asks for disk space before it writes ("size") and waits
for GO; everything else it only tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from engine.data.errors import ERROR_KINDS, EngineError, RunError
from engine.models.entry import HubSource, Source, WheelSource

GO = "go"
EventKind = Literal["note", "size", "progress", "checking", "done", "failed"]

_QUANT = re.compile(
    r"(?:^|[-_.])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|F16|F32|FP16|MXFP4(?:_MOE)?))"
    r"(?=[-_.]|$)",
    re.IGNORECASE,
)
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DownloadSpec:
    """One download. sources: in order. target: where a joined file goes. bytes: 0 if unknown.

    work: folder of this download inside the data folder. stage: name of its folder inside the
    Hub's cache, on whose volume the file must be written.
    """

    id: str
    bytes: int
    sha256: str | None
    sources: tuple[Source, ...]
    target: str
    work: str
    stage: str

    def to_line(self) -> str:
        rows = [
            {"kind": "hub" if isinstance(source, HubSource) else "wheels"} | asdict(source)
            for source in self.sources
        ]
        return json.dumps(asdict(self) | {"sources": rows})

    @staticmethod
    def from_line(line: str) -> DownloadSpec:
        content = json.loads(line)
        content["sources"] = tuple(_source(row) for row in content["sources"])
        return DownloadSpec(**content)


@dataclass(frozen=True, slots=True)
class DownloadEvent:
    """note: message. size: total, folder. progress, checking: bytes, total. done: path.

    failed: kind (a class of engine.data.errors) and message.
    """

    event: EventKind
    bytes: int = 0
    total: int = 0
    message: str = ""
    kind: str = ""
    path: str = ""

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_message(message: Mapping[str, Any]) -> DownloadEvent | None:
        """None for what is no event."""
        known = {item.name: item.default for item in fields(DownloadEvent)}
        if not message.keys() <= known.keys() or message.get("event") not in get_args(EventKind):
            return None
        for name, value in message.items():
            kind = int if isinstance(known[name], int) else str
            if not isinstance(value, kind) or isinstance(value, bool):
                return None
        return DownloadEvent(**message)


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A GGUF file of a Hub repository. bytes: of all its parts. quant: as its name says, or ""."""

    name: str
    bytes: int
    quant: str
    parts: int = 1


def failure(error: EngineError) -> DownloadEvent:
    """The event that carries an error across; unknown kinds become their nearest known base."""
    known = next(base.__name__ for base in type(error).__mro__ if base.__name__ in ERROR_KINDS)
    return DownloadEvent("failed", kind=known, message=str(error))


def error_of(event: DownloadEvent) -> EngineError:
    return ERROR_KINDS.get(event.kind, RunError)(event.message)


def quant_of_name(file: str) -> str:
    """Q4_K_M of path/Model-Q4_K_M-00001-of-00002.gguf; "" if the name tells none."""
    stem = _PART.sub("", file.rpartition("/")[2]).removesuffix(".gguf")
    found = _QUANT.findall(stem)
    return str(found[-1]).upper() if found else ""


def part_names(file: str) -> tuple[str, ...]:
    """All files of a model: itself, or every part when the name is that of a split model."""
    part = _PART.search(file)
    if part is None:
        return (file,)
    count, stem = int(part[2]), file[: part.start()]
    return tuple(f"{stem}-{number:05d}-of-{part[2]}.gguf" for number in range(1, count + 1))


def _source(row: dict[str, Any]) -> Source:
    if row.pop("kind") == "hub":
        return HubSource(**row)
    return WheelSource(tuple(row["packages"]), row["version"], row["member"])
