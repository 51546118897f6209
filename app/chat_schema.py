"""The tables of the conversation file.

Numbers of rows are never used again: a page that still shows a message which has gone must not
reach another one.
"""

from __future__ import annotations

VERSION = 1
"""Kept as the file's user_version. Files of version 0 used numbers again, and had no `replaced`."""

TABLES = {
    "conversations": ("id", "title", "updated", "deleted"),
    "messages": ("id", "conversation", "role", "content", "tokens", "details", "streaming"),
    "replaced": ("id", "reply", "conversation", "role", "content", "tokens", "details"),
}
"""Columns, in an order in which rows can be stored."""

SCHEMA = f"""
create table if not exists conversations (
    id integer primary key autoincrement,
    title text not null,
    updated real not null,
    deleted integer not null default 0
);
create table if not exists messages (
    id integer primary key autoincrement,
    conversation integer not null references conversations (id) on delete cascade,
    role text not null check (role in ('user', 'assistant')),
    content text not null,
    tokens text not null default '[]',
    details text not null default '{{}}',
    streaming integer not null default 0
);
create index if not exists messages_by_conversation on messages (conversation, id);

-- Messages that a new reply takes the place of, until that reply is complete and stored.
create table if not exists replaced (
    id integer primary key,
    reply integer not null,
    conversation integer not null references conversations (id) on delete cascade,
    role text not null,
    content text not null,
    tokens text not null,
    details text not null
);
create index if not exists replaced_by_reply on replaced (reply);
create index if not exists replaced_by_conversation on replaced (conversation);
pragma user_version = {VERSION};
"""
