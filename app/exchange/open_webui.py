"""Open WebUI's export: [{title, chat: {history: {messages, currentId}, models, params}, ...}]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.fields import attachments, items, key, seconds, table, text
from app.exchange.format import Format
from app.exchange.linear import chained
from app.exchange.thoughts import split_thoughts
from app.exchange.tree import FoundChat, FoundMessage, Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def _matches(record: Mapping[str, Any]) -> bool:
    chat = table(record.get("chat")) or record
    messages = table(chat.get("history")).get("messages")
    return isinstance(messages, dict) or (
        "chat" in record and isinstance(chat.get("messages"), list)
    )


def _read(record: Any) -> FoundChat:
    outer = table(record)
    chat = table(outer.get("chat")) or outer
    history = table(chat.get("history"))
    tree = table(history.get("messages"))
    if tree:
        messages = [_message(name, table(message)) for name, message in tree.items()]
    else:
        listed = [table(one) for one in items(chat.get("messages"))]
        messages = chained(_message(str(place), one) for place, one in enumerate(listed))
    return FoundChat(
        title=text(outer.get("title")) or text(chat.get("title")),
        messages=messages,
        current=key(history.get("currentId")) if tree else None,
        created=seconds(outer.get("created_at")) or seconds(chat.get("timestamp")),
        updated=seconds(outer.get("updated_at")),
        details=_details(outer, chat),
    )


def _message(name: str, message: Mapping[str, Any]) -> FoundMessage:
    role = _ROLES.get(text(message.get("role")))
    content, reasoning = text(message.get("content")), ""
    if role == "assistant":
        reasoning, content = split_thoughts(content)
    return FoundMessage(
        key=name,
        parent=key(message.get("parentId")),
        role=role or "system",
        content=content,
        reasoning=reasoning,
        time=seconds(message.get("timestamp")),
        model=text(message.get("model")),
        details=attachments(message.get("files")),
        kept=role is not None and bool(content or reasoning),
    )


def _details(outer: Mapping[str, Any], chat: Mapping[str, Any]) -> dict[str, Any]:
    system = text(table(chat.get("params")).get("system")) or text(chat.get("system"))
    found = {
        "system": system,
        "pinned": outer.get("pinned") is True,
        "archived": outer.get("archived") is True,
        "folder": text(outer.get("folder_id")),
    }
    return {name: value for name, value in found.items() if value}


FORMAT = Format("Open WebUI", "its JSON export of chats", _matches, _read)
