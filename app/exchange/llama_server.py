"""The page of llama-server: JSONL (a session record, then its messages), one or several of them, a
zip of such files, or the earlier JSON: {conv, messages}, alone or in a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.fields import attachments, items, key, seconds, table, text
from app.exchange.format import Format, Records
from app.exchange.linear import chained
from app.exchange.thoughts import split_thoughts
from app.exchange.tree import FoundChat, FoundMessage, Role, SkippedError

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_SESSION, _MESSAGE = "session", "message"


def _matches(record: Mapping[str, Any]) -> bool:
    if record.get("type") == _SESSION:
        return True
    if record.get("type") == _MESSAGE:
        return isinstance(record.get("message"), dict)
    return isinstance(record.get("conv"), dict) and isinstance(record.get("messages"), list)


def _chats(records: Records) -> Records:
    """Each as {conv, messages}. Lines of other types are for newer readers."""
    chats: Records = []
    for record in map(table, records):
        kind = record.get("type")
        if kind == _SESSION:
            chats.append({"conv": record, "messages": []})
        elif kind == _MESSAGE:
            if not chats:
                chats.append({"conv": {}, "messages": []})
            chats[-1]["messages"].append(record.get("message"))
        elif "conv" in record:
            chats.append({"conv": record["conv"], "messages": list(items(record.get("messages")))})
    return chats


def _read(record: Any) -> FoundChat:
    conversation = table(record["conv"])
    messages = [_message(table(message)) for message in record["messages"]]
    if not any(message.parent for message in messages):
        messages = chained(messages)
    return FoundChat(
        title=text(conversation.get("name")),
        messages=messages,
        current=key(conversation.get("currNode")),
        updated=seconds(conversation.get("lastModified")),
        details={"pinned": True} if conversation.get("pinned") is True else {},
    )


def _message(message: Mapping[str, Any]) -> FoundMessage:
    name, role = key(message.get("id")), _ROLES.get(text(message.get("role")))
    if name is None:
        raise SkippedError("a message has no id")
    content = text(message.get("content"))
    reasoning = text(message.get("reasoningContent")) or text(message.get("thinking"))
    if role == "assistant" and not reasoning:
        reasoning, content = split_thoughts(content)
    is_root = message.get("type") == "root"
    return FoundMessage(
        key=name,
        parent=key(message.get("parent")),
        role=role or "system",
        content=content,
        reasoning=reasoning,
        time=seconds(message.get("timestamp")),
        model=text(message.get("model")),
        details=attachments(message.get("extra")),
        kept=role is not None and not is_root and bool(content or reasoning),
    )


FORMAT = Format(
    "llama-server", "JSONL, a zip of it, or JSON from llama-server's page", _matches, _read, _chats
)
