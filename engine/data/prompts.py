"""Prompts to try a pair on: a built-in handful, or a JSON-lines file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.documents import DocumentError, decoded, numbered_lines, parse_json
from engine.data.errors import BadOptionError


@dataclass(frozen=True, slots=True)
class TrialPrompt:
    """One user message. category: for figures by kind of text."""

    text: str
    category: str = "all"


def numbered(prompts: Sequence[TrialPrompt]) -> Iterator[tuple[int, TrialPrompt]]:
    """Each prompt with its number in its category, from 0."""
    seen: Counter[str] = Counter()
    for prompt in prompts:
        yield seen[prompt.category], prompt
        seen[prompt.category] += 1


BUILT_IN: tuple[TrialPrompt, ...] = (
    TrialPrompt("Write a Python function that returns the n-th Fibonacci number.", "coding"),
    TrialPrompt("A train travels 120 km in 90 minutes. What is its speed in km/h?", "math"),
    TrialPrompt("Explain in three sentences why the sky is blue.", "stem"),
    TrialPrompt("Write the first paragraph of a story about a lighthouse keeper.", "writing"),
    TrialPrompt("List five fruits and a colour for each, as a table.", "extraction"),
    TrialPrompt("Translate to French: The meeting starts at nine tomorrow.", "translation"),
    TrialPrompt("Repeat this twice: the quick brown fox jumps over the lazy dog.", "copying"),
    TrialPrompt("What are the advantages of working from home? Answer briefly.", "humanities"),
)


def read_prompts(file: Path | None, limit: int | None = None) -> tuple[TrialPrompt, ...]:
    """Prompts of a file, one JSON object a line: "prompt", or "turns" (the first one is used).

    None gives the built-in ones. BadOptionError when a line is neither, or limit is below 1.
    """
    if limit is not None and limit < 1:
        raise BadOptionError("--limit must be 1 or more")
    prompts = BUILT_IN if file is None else tuple(_parse(file))
    if not prompts:
        raise BadOptionError(f"{file} holds no prompts")
    return prompts if limit is None else prompts[:limit]


def read_text(file: Path) -> str:
    """A file of the user's. BadOptionError when it is not UTF-8."""
    try:
        return decoded(file.read_bytes())
    except DocumentError as error:
        raise BadOptionError(f"{file} {error}") from error


def _parse(file: Path) -> list[TrialPrompt]:
    prompts = []
    for number, line in numbered_lines(read_text(file)):
        try:
            record: Any = parse_json(line)
        except DocumentError as error:
            raise BadOptionError(f"{file}, line {number} {error}") from error
        text = _text(record)
        if text is None:
            raise BadOptionError(f'{file}, line {number} has neither "prompt" nor "turns"')
        prompts.append(TrialPrompt(text, str(record.get("category", "all"))))
    return prompts


def _text(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("prompt"), str):
        return str(record["prompt"])
    turns = record.get("turns")
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        return turns[0]
    return None
