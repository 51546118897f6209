"""LM Studio's NAME.conversation.json: a list of positions, each with versions, one selected.

Its makers do not describe the form, and how it marks thoughts is not certain: what is not
understood is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.fields import items, seconds, table, text
from app.exchange.format import Format
from app.exchange.thoughts import split_thoughts
from app.exchange.tree import FoundChat, FoundMessage, Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def _matches(record: Mapping[str, Any]) -> bool:
    messages = items(record.get("messages"))
    return bool(messages) and all(isinstance(table(one).get("versions"), list) for one in messages)


def _read(record: Any) -> FoundChat:
    chat = table(record)
    model = text(table(chat.get("lastUsedModel")).get("identifier"))
    found: list[FoundMessage] = []
    parent: str | None = None
    for position, message in enumerate(items(chat.get("messages"))):
        versions = items(table(message).get("versions"))
        found += [
            _version(f"{position}.{place}", parent, table(version), model)
            for place, version in enumerate(versions)
        ]
        if versions:
            parent = f"{position}.{_selected(message.get('currentlySelected'), len(versions))}"
    system = text(chat.get("systemPrompt"))
    return FoundChat(
        title=text(chat.get("name")),
        messages=found,
        current=parent,
        created=seconds(chat.get("createdAt")),
        updated=seconds(chat.get("userLastMessagedAt")) or seconds(chat.get("createdAt")),
        details={"system": system} if system else {},
    )


def _selected(value: Any, count: int) -> int:
    """The last one when it names none."""
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
    return int(value) if sound else count - 1


def _version(name: str, parent: str | None, version: Mapping[str, Any], model: str) -> FoundMessage:
    role = _ROLES.get(text(version.get("role")))
    if version.get("type") == "multiStep":
        reasoning, content = _steps(items(version.get("steps")))
    else:
        reasoning, content = "", _words(version.get("content"))
    if role == "assistant" and not reasoning:
        reasoning, content = split_thoughts(content)
    return FoundMessage(
        key=name,
        parent=parent,
        role=role or "system",
        content=content,
        reasoning=reasoning,
        model=model if role == "assistant" else "",
        kept=role is not None and bool(content or reasoning),
    )


def _steps(steps: list[Any]) -> tuple[str, str]:
    thoughts: list[str] = []
    answer: list[str] = []
    for step in map(table, steps):
        if step.get("type") == "contentBlock":
            is_thought = text(table(step.get("style")).get("type")) == "thinking"
            (thoughts if is_thought else answer).append(_words(step.get("content")))
    return "\n\n".join(filter(None, thoughts)), "\n\n".join(filter(None, answer))


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text(table(part).get("text")) for part in items(content))))


FORMAT = Format("LM Studio", "NAME.conversation.json", _matches, _read)
