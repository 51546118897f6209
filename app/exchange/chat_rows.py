"""Trees into the tables of the conversation file, and out of them.

What the system says before everything else is a setting of the conversation, not a message.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.attachments.reading import safe_name
from app.conversations import title_of
from app.exchange.fields import seconds, table, text
from app.exchange.tree import ChatFile, ChatTree, FoundChat, FoundMessage, Node, grown
from app.exchange.wire_check import sound_details
from app.stored_message import COLUMNS, StoredMessage, parsed_details, stored_message
from app.thoughts import thought_of
from engine.data.documents import compact_json, sendable

_TITLE_LENGTH = 200
_UNTITLED = "Imported chat"
_PREFACE = "system"
"""The key of the message that holds the system's words of a chat that is read."""


def write_chats(connection: sqlite3.Connection, chats: Iterable[ChatTree]) -> int:
    """How many messages their paths show then. The caller's transaction."""
    now, count = time.time(), 0
    for chat in chats:
        preface, nodes = _without_preface(chat)
        updated = min(chat.updated or chat.created or now, now)
        about = {"created": chat.created, "details": chat.details}
        cursor = connection.execute(
            "insert into conversations (title, updated, settings, details) values (?, ?, ?, ?)",
            (
                _title(chat),
                updated,
                compact_json({"system": preface} if preface else {}),
                compact_json({name: value for name, value in about.items() if value}),
            ),
        )
        conversation = int(cursor.lastrowid or 0)
        numbers = _write_nodes(connection, conversation, nodes)
        last = numbers.get(chat.current, max(numbers.values()))
        connection.execute(
            "update conversations set current = ? where id = ?", (last, conversation)
        )
        count += sum(node.role != "system" for node in chat.path())
    return count


def read_chat(connection: sqlite3.Connection, conversation: int) -> ChatTree | None:
    """None when it is gone, or holds no messages."""
    found = connection.execute(
        "select title, updated, current, settings, details from conversations"
        " where id = ? and not deleted",
        (conversation,),
    ).fetchone()
    rows = connection.execute(
        f"select {COLUMNS} from messages where conversation = ? and not deleted order by id",
        (conversation,),
    ).fetchall()
    if found is None or not rows:
        return None
    title, updated, current, settings, details = found
    about, preface = parsed_details(details), text(parsed_details(settings).get("system"))
    files = _read_files(connection, conversation)
    messages = [
        replace(_found(stored_message(row), bool(preface)), files=files.get(row[0], ()))
        for row in rows
    ]
    if preface:
        messages.insert(0, FoundMessage(_PREFACE, None, "system", preface))
    return grown(
        FoundChat(
            str(title),
            messages,
            current=str(current),
            created=seconds(about.get("created")),
            updated=float(updated),
            details=table(about.get("details")),
        )
    )


def chat_numbers(connection: sqlite3.Connection) -> list[int]:
    """Of all that are kept, the oldest first."""
    rows = connection.execute(
        "select id from conversations where not deleted order by updated, id"
    ).fetchall()
    return [int(row[0]) for row in rows]


def _title(chat: ChatTree) -> str:
    title = " ".join(chat.title.split())[:_TITLE_LENGTH].rstrip()
    said = (node.content for node in chat.path() if node.role != "system")
    return title or title_of(next(said, "")) or _UNTITLED


def _without_preface(chat: ChatTree) -> tuple[str, list[Node]]:
    """What the system says before the path's first message, and all other nodes. Where there are
    several such prefaces, the others go: a conversation has one."""
    path = [node for node in chat.path() if node.role == "system" and node.parent is None]
    by_id = {node.id: node for node in chat.nodes}
    prefaces = {node.id for node in chat.nodes if node.role == "system" and node.parent is None}
    kept = [node for node in chat.nodes if node.id not in prefaces]
    chosen = path[0].content if path else ""
    if not path and prefaces:
        chosen = by_id[min(prefaces)].content
    return chosen, kept


def _write_nodes(
    connection: sqlite3.Connection, conversation: int, nodes: Sequence[Node]
) -> dict[int, int]:
    """Numbers of the rows by ids of the nodes."""
    numbers: dict[int, int] = {}
    for node in _parents_first(nodes):
        parent = numbers.get(node.parent) if node.parent is not None else None
        row = connection.execute(
            "insert into messages (conversation, parent, role, content, tokens, details, created,"
            " reasoning) values (?, ?, ?, ?, ?, ?, ?, ?)",
            (conversation, parent, *_columns(node)),
        )
        numbers[node.id] = int(row.lastrowid or 0)
        _write_files(connection, numbers[node.id], node.files)
    return numbers


def _write_files(connection: sqlite3.Connection, message: int, files: Sequence[ChatFile]) -> None:
    """By what their text is: what a file says of its own sum could be that of another one."""
    for place, file in enumerate(files):
        content = sendable(file.text)
        digest = hashlib.sha256(content.encode()).hexdigest()
        connection.execute(
            "insert or ignore into files (sha256, kind, bytes, text) values (?, ?, ?, ?)",
            (digest, file.kind, file.bytes, content),
        )
        connection.execute(
            "insert into attachments (message, place, name, sha256) values (?, ?, ?, ?)",
            (message, place, safe_name(file.name), digest),
        )


def _read_files(connection: sqlite3.Connection, conversation: int) -> dict[int, list[ChatFile]]:
    """By the number of the message."""
    found: dict[int, list[ChatFile]] = defaultdict(list)
    rows = connection.execute(
        "select m.id, a.name, f.kind, f.bytes, f.text from messages m join attachments a"
        " on a.message = m.id join files f on f.sha256 = a.sha256 where m.conversation = ?"
        " order by a.message, a.place, a.id",
        (conversation,),
    )
    for message, *file in rows:
        found[message].append(ChatFile(*file))
    return found


def _parents_first(nodes: Sequence[Node]) -> Iterator[Node]:
    """In the order of their ids as far as that can be: of versions, the newer one later."""
    known = {node.id: node for node in nodes}
    below: dict[int | None, list[int]] = defaultdict(list)
    for node in nodes:
        below[node.parent if node.parent in known else None].append(node.id)
    ready = sorted(below[None])
    while ready:
        identity = heapq.heappop(ready)
        yield known[identity]
        for one in below[identity]:
            heapq.heappush(ready, one)


def _columns(node: Node) -> tuple[str, str, str, str, float, str]:
    details = sound_details(node.details)
    tokens = list(node.tokens)
    reasoning = node.reasoning
    if node.role == "assistant":
        details = {"model": node.model} | details
        if not tokens:  # a thought is known by its place among them
            details.pop("reasoning", None)
            tokens = _one_token(node.content)
        elif thought_of(tokens, details):
            reasoning = ""
    packed = json.dumps(tokens, separators=(",", ":"), ensure_ascii=False)
    told = json.dumps(sendable(details), ensure_ascii=False)
    return node.role, node.content, packed, told, node.time or 0.0, reasoning


def _one_token(content: str) -> list[list[Any]]:
    """A reply of another program, as the page draws it."""
    return [[content, "p", None, None, None, None]] if content else []


def _found(message: StoredMessage, has_preface: bool) -> FoundMessage:
    details = {name: value for name, value in message.details.items() if name != "model"}
    if message.streaming:
        details["finish"] = "interrupted"
    tokens = [] if message.tokens == _one_token(message.content) else message.tokens
    above = _PREFACE if has_preface and message.parent is None else None
    return FoundMessage(
        key=str(message.id),
        parent=above if message.parent is None else str(message.parent),
        role=message.role,
        content=message.content,
        reasoning=message.reasoning or thought_of(tokens, details) or "",
        time=message.created or None,
        model=text(message.details.get("model")),
        tokens=tokens,
        details=details,
    )
