"""Trees into the tables of the conversation file, and out of them.

The tables hold one path of each chat. What else a tree holds is kept beside it, in the details of
the path's messages under `TREE`, so that nothing is lost:

{"id", "parent", "time"?, "reasoning"?, "others"?: [nodes off the path that hang below this one],
"chat"?: {"created", "details"} of the whole, with its first message}

A message without it was written here, and follows the one before it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from app.conversations import StoredMessage, stored_message, title_of
from app.exchange.fields import items, key, seconds, table, text
from app.exchange.tree import ChatTree, FoundChat, FoundMessage, Node, Role, grown
from app.exchange.wire_check import sound_details
from app.thoughts import thought_of
from engine.data.documents import sendable

TREE = "tree"
_TITLE_LENGTH = 200
_UNTITLED = "Imported chat"
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}


def write_chats(connection: sqlite3.Connection, chats: Iterable[ChatTree]) -> int:
    """How many messages can be read then. The caller's transaction."""
    now, count = time.time(), 0
    for chat in chats:
        path = [node for node in chat.path() if node.role != "system"]
        updated = min(chat.updated or chat.created or now, now)
        cursor = connection.execute(
            "insert into conversations (title, updated) values (?, ?)",
            (_title(chat, path), updated),
        )
        rows = [(cursor.lastrowid, *row) for row in _rows(chat, path)]
        connection.executemany(
            "insert into messages (conversation, role, content, tokens, details)"
            " values (?, ?, ?, ?, ?)",
            rows,
        )
        count += len(rows)
    return count


def read_chat(connection: sqlite3.Connection, conversation: int) -> ChatTree | None:
    """None when it is gone, or holds no messages."""
    found = connection.execute(
        "select title, updated from conversations where id = ? and not deleted", (conversation,)
    ).fetchone()
    rows = connection.execute(
        "select id, role, content, tokens, details, streaming from messages"
        " where conversation = ? order by id",
        (conversation,),
    ).fetchall()
    if found is None or not rows:
        return None
    return _tree(str(found[0]), float(found[1]), [stored_message(*row) for row in rows])


def chat_numbers(connection: sqlite3.Connection) -> list[int]:
    """Of all that are kept, the oldest first."""
    rows = connection.execute(
        "select id from conversations where not deleted order by updated, id"
    ).fetchall()
    return [int(row[0]) for row in rows]


def _title(chat: ChatTree, path: Sequence[Node]) -> str:
    title = " ".join(chat.title.split())[:_TITLE_LENGTH].rstrip()
    return title or title_of(next((node.content for node in path), "")) or _UNTITLED


def _rows(chat: ChatTree, path: Sequence[Node]) -> Iterable[tuple[str, str, str, str]]:
    others = _others(chat, path)
    for place, node in enumerate(path):
        kept: dict[str, Any] = {"id": node.id, "parent": node.parent}
        kept |= {"time": node.time} if node.time is not None else {}
        kept |= {"reasoning": node.reasoning} if node.reasoning else {}
        kept |= {"others": others[node.id]} if others[node.id] else {}
        if place == 0:
            kept["chat"] = {"created": chat.created, "details": chat.details}
        details = sound_details(node.details) | {TREE: kept}
        tokens = list(node.tokens)
        if node.role == "assistant":
            details = {"model": node.model, "drafters": [], "notices": []} | details
            if not tokens:  # a thought is known by its place among them
                details.pop("reasoning", None)
                tokens = _one_token(node.content)
        packed = json.dumps(tokens, separators=(",", ":"), ensure_ascii=False)
        yield node.role, node.content, packed, json.dumps(sendable(details), ensure_ascii=False)


def _others(chat: ChatTree, path: Sequence[Node]) -> dict[int, list[dict[str, Any]]]:
    """By the message of the path that each node off it hangs below, the first one if below none."""
    by_id = {node.id: node for node in chat.nodes}
    owner: dict[int, int] = {node.id: node.id for node in path}
    found: dict[int, list[dict[str, Any]]] = {node.id: [] for node in path}
    for node in chat.nodes:
        walked: list[int] = []
        at: int | None = node.id
        while at is not None and at not in owner:
            walked.append(at)
            at = by_id[at].parent
        owner.update(dict.fromkeys(walked, path[0].id if at is None else owner[at]))
        if owner[node.id] != node.id:
            found[owner[node.id]].append(asdict(node))
    return found


def _one_token(content: str) -> list[list[Any]]:
    """A reply of another program, as the page draws it."""
    return [[content, "p", None, None, None, None]] if content else []


def _tree(title: str, updated: float, stored: Sequence[StoredMessage]) -> ChatTree:
    about = table(table(stored[0].details.get(TREE)).get("chat"))
    imported: list[tuple[int, FoundMessage]] = []
    written: list[FoundMessage] = []
    before: str | None = None
    for message in stored:
        tree = table(message.details.get(TREE))
        number = tree.get("id")
        if isinstance(number, int):
            imported.append((number, _imported(message, tree, number)))
            imported += [_other(table(one)) for one in items(tree.get("others"))]
            before = str(number)
        else:
            before, above = f"row {message.id}", before
            written.append(_written(message, before, above))
    messages = [one for _, one in sorted(imported, key=lambda pair: pair[0])] + written
    return grown(
        FoundChat(
            title,
            messages,
            current=before,
            created=seconds(about.get("created")),
            updated=updated,
            details=table(about.get("details")),
        )
    )


def _imported(message: StoredMessage, tree: dict[str, Any], number: int) -> FoundMessage:
    return _found(message, str(number), key(tree.get("parent")), tree)


def _written(message: StoredMessage, name: str, parent: str | None) -> FoundMessage:
    return _found(message, name, parent, {})


def _found(
    message: StoredMessage, name: str, parent: str | None, tree: dict[str, Any]
) -> FoundMessage:
    details = {key: value for key, value in message.details.items() if key not in (TREE, "model")}
    if message.streaming:
        details["finish"] = "interrupted"
    tokens = [] if message.tokens == _one_token(message.content) else message.tokens
    return FoundMessage(
        key=name,
        parent=parent,
        role=message.role,
        content=message.content,
        reasoning=text(tree.get("reasoning")) or thought_of(tokens, details) or "",
        time=seconds(tree.get("time")),
        model=text(message.details.get("model")),
        tokens=tokens,
        details=details,
    )


def _other(node: dict[str, Any]) -> tuple[int, FoundMessage]:
    """One that `_others` has stored."""
    number = int(node["id"])
    return number, FoundMessage(
        key=str(number),
        parent=key(node["parent"]),
        role=_ROLES[node["role"]],
        content=text(node["content"]),
        reasoning=text(node["reasoning"]),
        time=seconds(node["time"]),
        model=text(node["model"]),
        tokens=items(node["tokens"]),
        details=table(node["details"]),
    )
