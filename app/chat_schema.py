"""The tables of the conversation file.

Messages of a conversation are trees: each follows its parent, and what follows the same one are
versions of it. The conversation names the message that the path on the page ends with.

Numbers of rows are never used again: a page that still shows a message which has gone must not
reach another one. A message's parent has the smaller number, so that no path is a circle.
"""

from __future__ import annotations

VERSION = 2
"""Kept as the file's user_version. Version 1 had one path of each conversation, and beside it, in a
table of its own, what an unfinished reply took the place of; version 0 used numbers again."""

TABLES = {
    "conversations": (
        *("id", "title", "updated", "deleted", "current", "pinned", "folder"),
        *("settings", "details"),
    ),
    "files": ("id", "sha256", "kind", "bytes", "text"),
    "messages": (
        *("id", "conversation", "parent", "role", "content", "tokens", "details"),
        *("streaming", "created", "deleted", "reasoning", "ids"),
    ),
    "attachments": ("id", "message", "place", "name", "sha256"),
}
"""Columns, in an order in which rows can be stored."""

SCHEMA = f"""
create table if not exists conversations (
    id integer primary key autoincrement,
    title text not null,
    updated real not null,
    deleted integer not null default 0,
    current integer,
    pinned integer not null default 0,
    folder text not null default '',
    settings text not null default '{{}}',
    details text not null default '{{}}'
);

-- parent has no cascade: sqlite gives up on chains of a thousand. deleted: the message whose
-- deletion took this one along, 0 for none. reasoning: thoughts that another program kept as text.
-- ids: of the tokens, see app/token_ids.py.
create table if not exists messages (
    id integer primary key autoincrement,
    conversation integer not null references conversations (id) on delete cascade,
    parent integer references messages (id) check (parent < id),
    role text not null check (role in ('user', 'assistant', 'system')),
    content text not null,
    tokens text not null default '[]',
    details text not null default '{{}}',
    streaming integer not null default 0,
    created real not null default 0,
    deleted integer not null default 0,
    reasoning text not null default '',
    ids text not null default '{{}}'
);
create index if not exists messages_by_conversation on messages (conversation, id);
create index if not exists messages_by_parent on messages (parent);

-- What was attached to messages; files with the same content are kept once.
create table if not exists files (
    id integer primary key autoincrement,
    sha256 text not null unique,
    kind text not null,
    bytes integer not null,
    text text not null
);
create table if not exists attachments (
    id integer primary key autoincrement,
    message integer not null references messages (id) on delete cascade,
    place integer not null,
    name text not null,
    sha256 text not null references files (sha256)
);
create index if not exists attachments_by_message on attachments (message);
pragma user_version = {VERSION};
"""
