"""ChatGPT's export: conversations.json, alone, in parts, or in the zip it comes in.

A chat is {title, create_time, update_time, current_node, mapping: {id: {message, parent}}}. Many of
its nodes were never shown: empty ones, calls of tools and their results, hidden instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.fields import items, key, seconds, table, text
from app.exchange.format import Format
from app.exchange.tree import FoundChat, FoundMessage, Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_THOUGHTS = "thoughts"
_SHOWN = ("text", "multimodal_text")


def _matches(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("mapping"), dict)


def _read(record: Any) -> FoundChat:
    chat = table(record)
    return FoundChat(
        title=text(chat.get("title")),
        messages=[_message(name, table(node)) for name, node in table(chat.get("mapping")).items()],
        current=key(chat.get("current_node")),
        created=seconds(chat.get("create_time")),
        updated=seconds(chat.get("update_time")),
    )


def _message(name: str, node: Mapping[str, Any]) -> FoundMessage:
    message, parent = table(node.get("message")), key(node.get("parent"))
    role = _ROLES.get(text(table(message.get("author")).get("role")))
    content, metadata = table(message.get("content")), table(message.get("metadata"))
    kind = text(content.get("content_type")) or "text"
    if kind == _THOUGHTS and role == "assistant":
        return FoundMessage(name, parent, role, reasoning=_thoughts(content), kept=False)
    words, others = _parts(content)
    shown = (
        role is not None
        and kind in _SHOWN
        and bool(words or others)
        and (text(message.get("recipient")) or "all") == "all"
        and not metadata.get("is_visually_hidden_from_conversation")
        and not metadata.get("is_user_system_message")
    )
    return FoundMessage(
        key=name,
        parent=parent,
        role=role or "system",
        content=words,
        time=seconds(message.get("create_time")),
        model=text(metadata.get("model_slug")),
        details={"attachments": others} if others else {},
        kept=shown,
    )


def _parts(content: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text, and of which kinds the other parts are: images, recordings."""
    words: list[str] = []
    others: list[str] = []
    for part in items(content.get("parts")):
        spoken = part if isinstance(part, str) else text(table(part).get("text"))
        if spoken:
            words.append(spoken)
        elif isinstance(part, dict):
            others.append(text(part.get("content_type")) or "part")
    return "\n".join(words), others


def _thoughts(content: Mapping[str, Any]) -> str:
    found = [table(one) for one in items(content.get("thoughts"))]
    return "\n\n".join(filter(None, (text(one.get("content")) for one in found)))


FORMAT = Format("ChatGPT", "conversations.json or the zip of its export", _matches, _read)
