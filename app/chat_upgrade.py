"""What files of version 1 knew of other paths, as rows of their own.

Two places: the table `replaced` held what an unfinished reply had taken the place of, and imported
chats kept all that was off the path in the details of its messages, under "tree":

{"id", "parent", "time"?, "reasoning"?, "others"?: [nodes off the path that hang below this one],
"chat"?: {"created", "details"} of the whole, with its first message}
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from app.exchange.fields import items, seconds, table, text
from app.stored_message import parsed_details
from engine.data.documents import compact_json

REPLACED = ("id", "reply", "conversation", "role", "content", "tokens", "details")
"""Columns of that table."""
_TREE = "tree"
_ROLES = ("system", "user", "assistant")

Row = dict[str, Any]


def grow_trees(replaced: Sequence[Row], new: sqlite3.Connection) -> None:
    """replaced: rows of that table, if the old file had it. Part of the caller's transaction."""
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in replaced:
        groups[row["reply"]].append(row)
    for reply in sorted(groups, reverse=True):  # what a reply that was replaced itself replaced
        _hang_beside(new, reply, sorted(groups[reply], key=lambda row: int(row["id"])))
    for conversation in _with_trees(new):
        _grow(new, conversation)


def _hang_beside(new: sqlite3.Connection, reply: int, rows: Sequence[Row]) -> None:
    """The first is a version of the reply, or of the message that the reply answers."""
    known = new.execute(
        "select m.parent, p.parent from messages m left join messages p on p.id = m.parent"
        " where m.id = ?",
        (reply,),
    ).fetchone()
    parent = None
    if known is not None:
        parent = known[0] if rows[0]["role"] == "assistant" else known[1]
    for row in rows:
        if parent is not None and parent >= row["id"]:
            parent = None
        with suppress(sqlite3.IntegrityError):  # a damaged row was none of ours
            new.execute(
                "insert into messages (id, conversation, parent, role, content, tokens, details)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                (row["id"], row["conversation"], parent, *(row[key] for key in REPLACED[3:])),
            )
            parent = row["id"]


def _with_trees(new: sqlite3.Connection) -> list[int]:
    rows = new.execute(
        "select distinct conversation from messages where instr(details, '\"tree\"')"
    ).fetchall()
    return [int(row[0]) for row in rows]


def _grow(new: sqlite3.Connection, conversation: int) -> None:
    """numbers: from the ids of the imported tree to rows."""
    numbers: dict[int, int] = {}
    others: list[Row] = []
    rows = new.execute(
        "select id, details from messages where conversation = ? order by id", (conversation,)
    ).fetchall()
    for message, stored in rows:
        details = parsed_details(stored)
        tree = table(details.pop(_TREE, None))
        if not isinstance(tree.get("id"), int):
            continue
        numbers[tree["id"]] = message
        others += [table(one) for one in items(tree.get("others"))]
        new.execute(
            "update messages set details = ?, created = ?, reasoning = ? where id = ?",
            (
                json.dumps(details, ensure_ascii=False),
                seconds(tree.get("time")) or 0.0,
                text(tree.get("reasoning")),
                message,
            ),
        )
        if "chat" in tree:
            about = {key: value for key, value in table(tree["chat"]).items() if value}
            new.execute(
                "update conversations set details = ? where id = ?",
                (compact_json(about), conversation),
            )
    _hang_others(new, conversation, others, numbers)


def _hang_others(
    new: sqlite3.Connection, conversation: int, others: Sequence[Row], numbers: dict[int, int]
) -> None:
    """Each after the one it follows. What follows nothing that is known is a first message; the
    system's words before the path are the conversation's settings."""
    waiting: dict[Any, list[Row]] = defaultdict(list)
    known = {one.get("id") for one in others} | set(numbers)
    for one in others:
        parent = one.get("parent")
        waiting[parent if parent in known else None].append(one)
    ready: list[tuple[int | None, Row]] = [(None, one) for one in waiting.pop(None, [])]
    for identity, number in list(numbers.items()):
        ready += [(number, one) for one in waiting.pop(identity, [])]
    while ready:
        above, one = ready.pop()
        row = _insert(new, conversation, above, one)
        ready += [(row, below) for below in waiting.pop(one.get("id"), [])]


def _insert(
    new: sqlite3.Connection, conversation: int, parent: int | None, node: Row
) -> int | None:
    role = text(node.get("role"))
    if role == "system" and parent is None:
        new.execute(
            "update conversations set settings = ? where id = ? and settings = '{}'",
            (compact_json({"system": text(node.get("content"))}), conversation),
        )
        return None
    tokens, content = items(node.get("tokens")), text(node.get("content"))
    if role == "assistant" and content and not tokens:
        tokens = [[content, "p", None, None, None, None]]
    details = {"model": text(node.get("model"))}
    details |= table(node.get("details"))
    return new.execute(
        "insert into messages (conversation, parent, role, content, tokens, details, created,"
        " reasoning) values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            conversation,
            parent,
            role if role in _ROLES else "user",
            content,
            compact_json(tokens),
            compact_json(details if role == "assistant" else {}),
            seconds(node.get("time")) or 0.0,
            text(node.get("reasoning")),
        ),
    ).lastrowid
