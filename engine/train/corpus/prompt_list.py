"""The built-in prompts and openings of questions: many thousands in a fixed, seeded order."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.data.request import Message
from engine.train.corpus.work import Item

COUNT = 24_000
_FILE = Path(__file__).resolve().parents[3] / "assets" / "training_prompts.toml"
_PLACE = re.compile(r"\{(?:(?P<low>\d+)-(?P<high>\d+)|(?P<list>[a-z]+)\d?)\}")
_TRIES = 400
_STYLED_SHARE = 0.4
_SMALL = ("i ", "hi", "quick")
"""Beginnings of prompts that are written carelessly on purpose."""


def built_in_prompts(seed: int) -> Iterator[Item]:
    """COUNT items, all different, categories in turn; the same ones for the same seed."""
    content = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    version = content["version"]
    maker = _PromptMaker(content, random.Random(f"prompts {version} {seed}"))
    for number in range(COUNT):
        category = maker.categories[number % len(maker.categories)]
        first, _, then = maker.distinct(category).partition(" => ")
        yield Item(
            f"prompt:{version}:{seed}:{number}", category, (Message("user", first),), follow_up=then
        )


def own_questions(seed: int) -> Iterator[Item]:
    """COUNT beginnings of questions, openings in turn, for the target to finish and to answer."""
    content = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    version, openings = content["version"], content["openings"]
    for number in range(COUNT):
        opening = openings[number % len(openings)]
        yield Item(f"own:{version}:{seed}:{number}", "own question", opening=opening)


class _PromptMaker:
    def __init__(self, content: Mapping[str, Any], random_: random.Random) -> None:
        self._random = random_
        self._templates: dict[str, list[str]] = content["templates"]
        self._nested: dict[str, list[str]] = content["nested"]
        self._styled = frozenset(content["styled"])
        self._styles: list[str] = content["styles"]
        self._words = {name: _entries(text) for name, text in content["words"].items()}
        self._seen: set[str] = set()
        self.categories = tuple(self._templates)

    def distinct(self, category: str) -> str:
        for _ in range(_TRIES):
            text = self._made(category)
            first = text.partition(" => ")[0]
            if first not in self._seen:
                self._seen.add(first)
                return text
        raise ValueError(f"the prompt templates of {category} are used up")

    def _made(self, category: str) -> str:
        """A question of the category, sometimes with a wish for how it is answered."""
        text = self._filled(self._random.choice(self._templates[category]))
        if category not in self._styled or self._random.random() >= _STYLED_SHARE:
            return text
        first, arrow, then = text.partition(" => ")
        return f"{first} {self._random.choice(self._styles)}{arrow}{then}"

    def _filled(self, template: str) -> str:
        """Every place filled; a named place that comes twice gets the same word both times."""
        chosen: dict[str, str] = {}

        def word(match: re.Match[str]) -> str:
            if match["list"] is None:
                return str(self._random.randint(int(match["low"]), int(match["high"])))
            place = match.group()
            if place not in chosen:
                chosen[place] = self._choice(match["list"], frozenset(chosen.values()))
            return chosen[place]

        text = _PLACE.sub(word, template)
        return text if text.startswith(_SMALL) else text[:1].upper() + text[1:]

    def _choice(self, name: str, taken: frozenset[str]) -> str:
        if name in self._nested:
            return self._filled(self._random.choice(self._nested[name]))
        words = self._words[name]
        if not taken.isdisjoint(words):
            words = tuple(word for word in words if word not in taken)
        return self._random.choice(words)


def _entries(text: str) -> tuple[str, ...]:
    return tuple(" ".join(entry.split()) for entry in text.split("|"))
