"""Prompts from the user's own files: JSON Lines as data sets of instructions have, or text."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from engine.data.documents import DocumentError, decoded, numbered_lines, parse_json
from engine.data.errors import BadOptionError
from engine.data.request import Message
from engine.files.disk import user_path
from engine.train.corpus.work import Item

_KEYS = ("turns", "prompt", "question", "instruction")
_WHAT = "JSON Lines with turns, prompt, question or instruction (and input), or one prompt a line"


def prompt_file_items(path: str) -> Iterator[Item]:
    """An item a prompt, in the file's order; a second turn becomes the follow-up.

    BadOptionError when the file cannot be read or a line is none of the known forms.
    """
    for first, then in _prompts(path):
        name = f"file:{zlib.crc32(first.encode()):08x}:{len(first)}"
        yield Item(name, "prompt file", (Message("user", first),), follow_up=then)


def prompt_count(path: str) -> int:
    """How many prompts there are. BadOptionError as above, and when there is none."""
    found = sum(1 for _ in _prompts(path))
    if not found:
        raise BadOptionError(f"{path} holds no prompts; --prompts takes {_WHAT}")
    return found


def _prompts(path: str) -> Iterator[tuple[str, str]]:
    file = user_path(path)
    try:
        lines = numbered_lines(decoded(file.read_bytes()))
    except FileNotFoundError:
        raise BadOptionError(f"there is no {path}; --prompts takes files: {_WHAT}") from None
    except OSError as error:
        raise BadOptionError(f"{path} cannot be read: {error.strerror or error}") from error
    except DocumentError as error:
        raise BadOptionError(f"{path} {error}") from error
    seen: set[str] = set()
    for number, line in lines:
        first, then = _prompt(line, f"{path}, line {number}", file.suffix in (".jsonl", ".json"))
        if first and first not in seen:
            seen.add(first)
            yield first, then


def _prompt(line: str, place: str, as_json: bool) -> tuple[str, str]:
    if not as_json:
        return line.strip(), ""
    try:
        value: Any = parse_json(line)
        key = next(key for key in _KEYS if key in value)
        wanted = value[key]
    except (ValueError, TypeError, StopIteration):
        raise BadOptionError(f"{place} is not a prompt; --prompts takes {_WHAT}") from None
    turns = wanted if key == "turns" else [f"{wanted}\n\n{_input(value)}".strip()]
    if not isinstance(turns, list) or not turns or not all(isinstance(one, str) for one in turns):
        raise BadOptionError(f"{place}: {key} is not text")
    return turns[0].strip(), turns[1].strip() if len(turns) > 1 else ""


def _input(value: dict[str, Any]) -> str:
    """What an instruction is about, where data sets keep it apart."""
    if isinstance(value.get("instances"), list) and value["instances"]:
        value = value["instances"][0]
    given = value.get("input", "") if isinstance(value, dict) else ""
    return given if isinstance(given, str) else ""
