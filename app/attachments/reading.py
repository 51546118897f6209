"""Reads a file in a short-lived child process with limits of time and memory."""

from __future__ import annotations

import hashlib
import sys
import threading
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.children.json_child import ChildPlan, JsonChild
from engine.data.errors import BadOptionError, RunError
from engine.data.shown import shown

LARGEST_FILE = 20_000_000
_ROOT = Path(__file__).resolve().parents[2]
_LONGEST_NAME = 120
_UNSEEN = ("C", "Zl", "Zp")
"""Categories of characters that are not seen, or turn the rest round."""


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """memory: of the child altogether, in bytes, held by the system on Linux."""

    seconds: int = 60
    memory: int = 1 << 30


@dataclass(frozen=True, slots=True)
class ReadFile:
    """kind: "text", "pdf" or "docx". sha256: of the file itself."""

    sha256: str
    name: str
    kind: str
    bytes: int
    text: str


def safe_name(name: str) -> str:
    """The last part of a path, of characters that are seen, on one line; the end stays."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    seen = (one for one in last if not unicodedata.category(one).startswith(_UNSEEN))
    cleaned = " ".join("".join(seen).split())
    if len(cleaned) > _LONGEST_NAME:
        cleaned = f"{cleaned[: _LONGEST_NAME - 21]}…{cleaned[-20:]}"
    return cleaned if cleaned.strip(".") else "file"


def read_file(
    path: Path,
    name: str,
    told: Callable[[int, int], None] = lambda _page, _of: None,
    limits: ReadingLimits | None = None,
) -> ReadFile:
    """BadOptionError names the file and says why it cannot be read."""
    name, limits = safe_name(name), limits or ReadingLimits()
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise BadOptionError(f"{name} has {size:,} bytes, {LARGEST_FILE:,} can be read")
    if not size:
        raise BadOptionError(f"{name} is empty")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    kind, text = _ask(path, name, told, limits)
    return ReadFile(digest, name, kind, size, text)


def _ask(
    path: Path, name: str, told: Callable[[int, int], None], limits: ReadingLimits
) -> tuple[str, str]:
    numbers = (str(limits.memory), str(limits.seconds))
    command = (sys.executable, "-m", "app.attachments.child", str(path), *numbers)
    plan = ChildPlan("file reader", command, folder=_ROOT, input=False, mask=0o077)
    pieces: list[str] = []
    kind = refused = ""
    late = threading.Event()
    try:
        with JsonChild(plan) as child:

            def end() -> None:
                late.set()
                child.kill()

            timer = threading.Timer(limits.seconds, end)
            timer.daemon = True
            timer.start()
            try:
                for message in child.messages():
                    if "page" in message:
                        told(message["page"], message["of"])
                    pieces.append(message.get("text", ""))
                    kind = message.get("kind", kind)
                    refused = message.get("refused", refused)
            finally:
                timer.cancel()
    except OSError as error:
        raise RunError(f"the process that reads files does not start: {error.strerror}") from error
    if refused:
        raise BadOptionError(f"{name} {shown(refused)}")
    if late.is_set():
        raise BadOptionError(f"{name} takes more than {limits.seconds} seconds to read")
    if not kind:
        raise BadOptionError(f"{name} cannot be read: it takes too much time or memory")
    return kind, "".join(pieces)
