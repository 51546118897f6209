"""What the page asks a training for, checked, and the command that does it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.errors import BadOptionError
from engine.files.disk import user_path
from engine.train.training import DRAFT_VOCABULARY, MOST_POSITIONS, NAME, HeadKind, TrainSettings

KINDS: dict[str, HeadKind] = {
    "medusa": "medusa",
    "eagle3": "eagle3",
    "early-exit": "early-exit",
}
_LONGEST_MINUTES = 7 * 24 * 60


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """Either minutes or tokens, the other one is None.

    texts: folders or files of the user's own text; JSON Lines files hold prompts. heads: of medusa.
    draft_vocab (tokens) and depth (tokens ahead): of eagle3.
    """

    kind: HeadKind
    target: str
    name: str
    texts: tuple[str, ...] = ()
    chats: bool = False
    minutes: int | None = 30
    tokens: int | None = None
    heads: int = 4
    draft_vocab: int = 16_000
    depth: int = 4

    @property
    def drafter(self) -> str:
        """The drafter expression of the result."""
        return f"{self.kind}:{self.name}"

    @property
    def settings(self) -> TrainSettings:
        """As far as the form has them."""
        if self.kind == "eagle3":
            return TrainSettings(positions=self.depth, draft_vocabulary=self.draft_vocab)
        return TrainSettings(positions=self.heads) if self.kind == "medusa" else TrainSettings()

    def arguments(self, resume: bool) -> list[str]:
        """Of `forerun train`."""
        parts = [self.kind, "--target", self.target, "--out", self.name, "--json"]
        prompts = [text for text in self.texts if Path(text).suffix == ".jsonl"]
        texts = [text for text in self.texts if text not in prompts]
        if texts:
            parts += ["--text", *texts]
        if prompts:
            parts += ["--prompts", *prompts]
        if self.chats:
            parts.append("--chats")
        if self.minutes is not None:
            parts += ["--minutes", str(self.minutes)]
        if self.tokens is not None:
            parts += ["--tokens", str(self.tokens)]
        if self.kind == "medusa":
            parts += ["--heads", str(self.heads)]
        if self.kind == "eagle3":
            parts += ["--draft-vocab", str(self.draft_vocab), "--depth", str(self.depth)]
        if resume:
            parts.append("--resume")
        return parts


def training_request(data: Mapping[str, Any]) -> TrainingRequest:
    """From the page's form or a file. BadOptionError says which value cannot be."""
    kind, name, target = (_text(data, key).strip() for key in ("kind", "name", "target"))
    if kind not in KINDS:
        raise BadOptionError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if not target:
        raise BadOptionError("choose a target first")
    if not NAME.fullmatch(name):
        raise BadOptionError("the name may have letters, digits, dots and dashes, at most 40")
    minutes = _whole(data, "minutes", 1, _LONGEST_MINUTES)
    tokens = _whole(data, "tokens", 1_000, 1_000_000_000)
    if (minutes is None) == (tokens is None):
        raise BadOptionError("give either minutes or tokens")
    return TrainingRequest(
        kind=KINDS[kind],
        target=target,
        name=name,
        texts=_paths(data.get("texts") or ()),
        chats=data.get("chats") is True,
        minutes=minutes,
        tokens=tokens,
        heads=_whole(data, "heads", 1, MOST_POSITIONS) or 4,
        draft_vocab=_whole(data, "draft_vocab", *DRAFT_VOCABULARY) or 16_000,
        depth=_whole(data, "depth", 1, MOST_POSITIONS) or 4,
    )


def _whole(data: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadOptionError(f"{name.replace('_', ' ')} must be from {low:,} to {high:,}")
    return int(value)


def require_texts(request: TrainingRequest) -> None:
    """BadOptionError when a folder or file is not there."""
    for text in request.texts:
        if not os.path.exists(text):
            raise BadOptionError(f"{text} does not exist: write the whole path of a folder or file")


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data[name]
    if not isinstance(value, str | None):
        raise BadOptionError(f"{name} must be text")
    return value or ""


def _paths(texts: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise BadOptionError("texts must be a list of folders and files")
    wanted = [text.strip() for text in texts]
    return tuple(str(absolute(text)) for text in wanted if text)


def absolute(text: str) -> Path:
    """What the user wrote as a path. BadOptionError when it could mean several places."""
    path = user_path(text.strip())
    if not path.is_absolute():
        raise BadOptionError(f"write the whole path of a folder or file, not {text.strip()!r}")
    return path
