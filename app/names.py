"""What drafters and models are called: everywhere as in the lists. The page is told, it works out
no name itself."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app.choices import Option
from engine.data.errors import BadOptionError
from engine.drafters.expression import HEAD_KINDS, DrafterExpression
from engine.drafters.heads_argument import parse_heads
from engine.drafters.kind import DrafterSettings
from engine.drafters.parse import parse_expression
from engine.drafters.registry import kind_named

_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
NameTable = dict[str, str]
"""Names by what they are of: drafter expressions, and ids of models."""


class Names:
    """Thread-safe. changed: told of what is called otherwise now than it was told before."""

    def __init__(self, changed: Callable[[NameTable], None]) -> None:
        self._changed = changed
        self._lock = threading.RLock()
        self._labels: dict[str, str] = {}
        self._told: dict[str, tuple[Callable[[str], str], str]] = {}

    def learn(self, options: Iterable[Option]) -> None:
        """What rows of the lists are called."""
        with self._lock:
            before = dict(self._labels)
            self._labels.update((option.value, option.label) for option in options)
            if self._labels == before:
                return
            news: NameTable = {}
            for text, (namer, old) in self._told.items():
                new = namer(text)
                if new != old:
                    news[text] = new
                    self._told[text] = namer, new
            if news:
                self._changed(news)

    def of_drafter(self, text: str) -> str:
        with self._lock:
            return drafter_name(text, self._labels)

    def of_model(self, model: str) -> str:
        with self._lock:
            return self._labels.get(model) or _file(model)

    def table(self, drafters: Iterable[str], models: Iterable[str] = ()) -> NameTable:
        """For a page, which hears of it when one of these names changes."""
        drafters, models = tuple(drafters), tuple(models)
        with self._lock:
            self._told.update((text, (self.of_drafter, self.of_drafter(text))) for text in drafters)
            self._told.update((text, (self.of_model, self.of_model(text))) for text in models)
            return {text: self._told[text][1] for text in (*drafters, *models)}


def drafters_in(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Drafters that a reply's details or an event name; stored ones may hold anything."""
    stats = details.get("stats")
    stats = stats if isinstance(stats, dict) else {}
    groups = details.get("drafters"), stats.get("by_drafter"), stats.get("members")
    found = [one for group in groups if isinstance(group, (list, dict)) for one in group]
    return tuple(dict.fromkeys(one for one in found if isinstance(one, str)))


def drafter_name(text: str, labels: Mapping[str, str]) -> str:
    """labels: what entries of the list are called, by their expressions, and models by ids."""
    try:
        return _name(parse_expression(text), labels)
    except BadOptionError:
        return text  # of an older chat, or of another program


def _name(expression: DrafterExpression, labels: Mapping[str, str]) -> str:
    text = str(expression)
    if text in labels:
        return labels[text]
    names = [_name(member, labels) for member in expression.members]
    if expression.kind == "tree":
        return f"{names[0]} with siblings"
    kind = kind_named(expression.kind)
    if kind.is_group:
        return f"{expression.kind} of {', '.join(names)}"
    plain, settings = kind.untuned(expression)
    name = labels.get(str(plain)) or _plain_name(plain, labels)
    return f"{name}, {_settings_text(settings)}" if settings != DrafterSettings() else name


def _plain_name(expression: DrafterExpression, labels: Mapping[str, str]) -> str:
    kind = kind_named(expression.kind)
    if expression.kind in HEAD_KINDS:
        reference = parse_heads(expression.kind, expression.argument).file
        return labels.get(reference) or _file(reference) or expression.kind
    model = kind.model_of(expression)
    if model is not None:
        return labels.get(model) or _file(model)
    return f"{kind.label}, {expression.argument}" if expression.argument else kind.label


def _settings_text(settings: DrafterSettings) -> str:
    parts = (f"tree of {settings.tree}" if settings.tree else "", settings.layers)
    return ", ".join(part for part in parts if part)


def _file(reference: str) -> str:
    return _FOLDERS.sub("", reference).removesuffix(".gguf")
