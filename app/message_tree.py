"""Questions about the trees of messages, as functions on a connection.

A path runs from a root, a message without a parent, down to one message. A message's versions are
those that follow the same one. What is deleted is not there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

_BELOW = (
    "with recursive below (id) as (select :message union all select m.id from messages m"
    " join below b on m.parent = b.id where not m.deleted)"
)
PATH = (
    "with recursive up (id, parent) as (select id, parent from messages where id = :message"
    " union all select m.id, m.parent from messages m join up on m.id = up.parent)"
)
"""Before a query that reads the table `up`: the numbers of a path, which rise on the way down."""


def versions_along(
    connection: sqlite3.Connection, conversation: int, path: tuple[int, ...]
) -> Mapping[int, tuple[int, ...]]:
    """Of each message of a path, the numbers of all its versions, itself among them."""
    wanted = set(path)
    by_parent: dict[int | None, list[int]] = {}
    parents: dict[int, int | None] = {}
    rows = connection.execute(
        "select id, parent from messages where conversation = ? and not deleted"
        " and role != 'system' order by id",
        (conversation,),
    )
    for identity, parent in rows:
        by_parent.setdefault(parent, []).append(identity)
        if identity in wanted:
            parents[identity] = parent
    return {identity: tuple(by_parent[parent]) for identity, parent in parents.items()}


def newest_leaf(connection: sqlite3.Connection, message: int) -> int:
    """The last message below this one, which may be itself."""
    query = f"{_BELOW} select max(id) from below"
    return int(connection.execute(query, {"message": message}).fetchone()[0])


def subtree(connection: sqlite3.Connection, message: int) -> tuple[int, ...]:
    """It and all that follows it, on any path, in the order of their numbers."""
    rows = connection.execute(f"{_BELOW} select id from below order by id", {"message": message})
    return tuple(int(row[0]) for row in rows)


def path_to(connection: sqlite3.Connection, message: int) -> tuple[int, ...]:
    """From the root down."""
    rows = connection.execute(f"{PATH} select id from up order by id", {"message": message})
    return tuple(int(row[0]) for row in rows)


def newest_sibling(connection: sqlite3.Connection, message: int) -> int | None:
    """Among the versions that are there, another than this one."""
    found = connection.execute(
        "select max(s.id) from messages s join messages m on m.id = :message"
        " where s.conversation = m.conversation and s.parent is m.parent and not s.deleted"
        " and s.role != 'system' and s.id != m.id",
        {"message": message},
    ).fetchone()[0]
    return None if found is None else int(found)
