"""One [models.ID] table of models.toml to a ModelEntry; every mistake names table and key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.data.errors import ConfigError
from engine.models.entry import HubSource, ModelEntry, Source, WheelSource, parse_hub_reference

_TEXTS = ("name", "family", "tokenizer", "parameters", "quant", "licence")
_UNVERIFIED = ("licence", "context", "file")
_KEYS = (
    *(*_TEXTS, "context", "bytes", "about_gib", "sha256", "drafters", "heads", "note"),
    *("unverified", "hub", "wheels"),
)
_HEAD_KINDS = ("medusa", "eagle", "eagle3")
_HUB_KEYS = ("repo", "file", "revision")
_WHEEL_KEYS = ("package", "parts", "version", "member")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PACKAGE = re.compile(r"[A-Za-z0-9]([\w.-]|\{n\})*")
_MAX_PARTS = 1000


def parse_model(
    file_name: str, id_: str, content: Mapping[str, Any], origin: str = "catalogue"
) -> ModelEntry:
    """Raises ConfigError: unknown key, missing key or bad value."""
    table = _Table(file_name, f"models.{id_}", content)
    table.only(_KEYS)
    texts = {key: table.text(key) for key in _TEXTS}
    sha256 = table.text("sha256", required=False)
    if sha256 and not _SHA256.fullmatch(sha256):
        raise table.error("sha256", "must be 64 hexadecimal digits in lower case")
    return ModelEntry(
        id=id_,
        name=texts["name"],
        family=texts["family"],
        tokenizer=texts["tokenizer"],
        parameters=texts["parameters"],
        quant=texts["quant"],
        licence=texts["licence"],
        sources=_sources(table),
        context=table.count("context"),
        bytes=table.count("bytes"),
        sha256=sha256 or None,
        drafters=table.texts("drafters"),
        heads=_heads(table),
        note=table.text("note", required=False),
        origin=origin,
        about_bytes=table.gibibytes("about_gib"),
        unverified=_unverified(table),
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """A TOML table with typed access."""

    file_name: str
    name: str
    content: Mapping[str, Any]

    def only(self, known: tuple[str, ...]) -> None:
        for key in self.content:
            if key not in known:
                raise ConfigError(
                    f"{self.file_name}: [{self.name}] has the unknown key {key!r}; "
                    f"known: {', '.join(known)}"
                )

    def text(self, key: str, required: bool = True) -> str:
        if key not in self.content and not required:
            return ""
        if key not in self.content:
            raise self.error(key, "is missing")
        value = self.content[key]
        if not isinstance(value, str) or (required and not value.strip()):
            raise self.error(key, "must be a text")
        return value

    def count(self, key: str, default: int = 0) -> int:
        value = self.content.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(key, "must be a whole number, 0 or more")
        return value

    def gibibytes(self, key: str) -> int:
        """In bytes, 0 if it is not given."""
        value = self.content.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10_000:
            raise self.error(key, "must be a number of GiB")
        return int(value * 2**30)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "must be a list of texts")
        return tuple(value)

    def table(self, key: str) -> _Table:
        value = self.content[key]
        if not isinstance(value, dict):
            raise self.error(key, "must be a table such as { ... }")
        return _Table(self.file_name, f"{self.name}.{key}", value)

    def error(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self.file_name}: [{self.name}] {key} {what}")


def _heads(table: _Table) -> tuple[str, ...]:
    heads = table.texts("heads")
    if any(one.partition(":")[0] not in _HEAD_KINDS or ":" not in one for one in heads):
        raise table.error("heads", f"must be texts KIND:FILE, KIND one of {', '.join(_HEAD_KINDS)}")
    return heads


def _unverified(table: _Table) -> tuple[str, ...]:
    facts = table.texts("unverified")
    if not set(facts) <= set(_UNVERIFIED):
        raise table.error("unverified", f"must be some of {', '.join(_UNVERIFIED)}")
    return facts


def _sources(table: _Table) -> tuple[Source, ...]:
    """The Hub first: it has the better checksums and shares its cache with other tools."""
    sources: list[Source] = []
    if "hub" in table.content:
        sources.append(_hub(table.table("hub")))
    if "wheels" in table.content:
        sources.append(_wheels(table.table("wheels")))
    if not sources:
        raise table.error("hub", "is missing (or wheels): the model needs a source")
    return tuple(sources)


def _hub(table: _Table) -> HubSource:
    table.only(_HUB_KEYS)
    source = HubSource(
        table.text("repo"), table.text("file"), table.text("revision", required=False) or "main"
    )
    if parse_hub_reference(source.reference) is None:
        raise table.error("repo", "or file is malformed: owner/name and path/to/file.gguf")
    return source


def _wheels(table: _Table) -> WheelSource:
    table.only(_WHEEL_KEYS)
    package = table.text("package")
    parts = table.count("parts", 1)
    if not _PACKAGE.fullmatch(package):
        raise table.error("package", "must be a package name; {n} stands for the part number")
    if not 1 <= parts <= _MAX_PARTS:
        raise table.error("parts", f"must be between 1 and {_MAX_PARTS}")
    if ("{n}" in package) != (parts > 1):
        raise table.error("package", "must contain {n} exactly when there are several parts")
    names = tuple(package.replace("{n}", str(number)) for number in range(1, parts + 1))
    return WheelSource(names, table.text("version"), table.text("member"))
