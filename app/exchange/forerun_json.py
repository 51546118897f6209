"""Forerun's own form: {"format", "version", "chats"}, every chat with its tree and its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.attachments.stored import MOST_FILES
from app.exchange.fields import items, key, seconds, table, text
from app.exchange.format import Format, Records
from app.exchange.tree import (
    ChatFile,
    ChatTree,
    FoundChat,
    FoundMessage,
    Node,
    Role,
    SkippedError,
)
from app.exchange.wire_check import sound_tokens
from engine.data.documents import compact_json
from engine.data.errors import BadOptionError

FORMAT_NAME = "forerun-chats"
VERSION = 1
_LONGEST_KIND = 40
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}

HEAD = f'{{"format":"{FORMAT_NAME}","version":{VERSION},"chats":[\n'
TAIL = "\n]}\n"
BETWEEN = ",\n"
"""A file is the head, the chats with this between them, and the tail."""


def chat_json(chat: ChatTree) -> str:
    """One line."""
    return compact_json(
        {
            "title": chat.title,
            "created": chat.created,
            "updated": chat.updated,
            "current": chat.current,
            "details": chat.details,
            "messages": [_node_json(node) for node in chat.nodes],
        }
    )


def _node_json(node: Node) -> dict[str, Any]:
    """Few messages have files, so that those without say nothing of them."""
    content = asdict(node)
    if not node.files:
        del content["files"]
    return content


def _matches(record: Mapping[str, Any]) -> bool:
    return record.get("format") == FORMAT_NAME


def _chats(records: Records) -> Records:
    chats: Records = []
    for record in records:
        version = table(record).get("version")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise BadOptionError("the file of chats does not say which version of the form it has")
        if version > VERSION:
            raise BadOptionError(
                f"the file of chats was written by a newer Forerun (form {version}, known is"
                f" {VERSION}): import it there"
            )
        chats += items(record.get("chats"))
    return chats


def _read(record: Any) -> FoundChat:
    chat = table(record)
    return FoundChat(
        title=text(chat.get("title")),
        messages=[_message(table(message)) for message in items(chat.get("messages"))],
        current=key(chat.get("current")),
        created=seconds(chat.get("created")),
        updated=seconds(chat.get("updated")),
        details=table(chat.get("details")),
    )


def _message(message: dict[str, Any]) -> FoundMessage:
    own, role = key(message.get("id")), _ROLES.get(text(message.get("role")))
    if own is None or role is None:
        raise SkippedError("a message has no id, or no role that is known")
    content, details = text(message.get("content")), table(message.get("details"))
    return FoundMessage(
        key=own,
        parent=key(message.get("parent")),
        role=role,
        content=content,
        reasoning=text(message.get("reasoning")),
        time=seconds(message.get("time")),
        model=text(message.get("model")),
        tokens=sound_tokens(items(message.get("tokens")), content, details),
        details=details,
        files=[_file(table(one)) for one in items(message.get("files"))[:MOST_FILES]],
    )


def _file(file: dict[str, Any]) -> ChatFile:
    size: Any = file.get("bytes")
    known = type(size) is int and 0 <= size < 2**53
    kind = text(file.get("kind"))[:_LONGEST_KIND]
    return ChatFile(text(file.get("name")), kind, int(size) if known else 0, text(file.get("text")))


FORMAT = Format("Forerun", "a JSON export of Forerun", _matches, _read, _chats)
