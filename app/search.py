"""Search that takes upper and lower case as the same, in every script.

sqlite knows the cases of ASCII only. So messages are searched in a folded form, which a table
beside them keeps: what it lacks, in a file of an earlier version all, is added by the next search.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import unicodedata

log = logging.getLogger(__name__)

SCHEMA = """
create table if not exists folded_messages (
    message integer primary key references messages (id) on delete cascade,
    folded text not null
);
"""

FIND = """
select id, title, updated, pinned, folder from conversations c where not deleted and (
    :wanted != '' or pinned or folder = '' or folder not in (select value from json_each(:closed))
) and (
    :wanted = '' or instr(fold(title), :wanted) or exists (
        select 1 from messages m left join folded_messages f on f.message = m.id
        where m.conversation = c.id and not m.deleted and m.role != 'system'
        and instr(coalesce(f.folded, fold(m.content)), :wanted)
    )
) order by pinned desc, not pinned and folder = '', iif(pinned or folder = '', '', fold(folder)),
  iif(pinned, '', folder), updated desc, id desc limit :limit
"""
"""A reply that is being written is folded as it is."""

_ADD = """
insert into folded_messages select m.id, fold(m.content) from messages m
left join folded_messages f on f.message = m.id where f.message is null and not m.streaming
"""

_GREEK_ACCENTS = re.compile("([\u0370-\u03ff]\u0308?)[\u0300\u0301\u0313\u0314\u0342]+")


def fold(text: str) -> str:
    """The same for texts that differ in case only.

    Full case folding of the decomposed text, as Unicode defines caseless matching, and what two
    scripts do besides: Turkish has a second i, and Greek capitals are written without accents.
    """
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
    folded = folded.replace("\u0131", "i").replace("i\u0307", "i")
    return unicodedata.normalize("NFC", _GREEK_ACCENTS.sub(r"\1", folded))


def prepare(connection: sqlite3.Connection) -> None:
    """The function and the table that `FIND` needs."""
    connection.create_function("fold", 1, fold, deterministic=True)
    connection.executescript(SCHEMA)


def catch_up(connection: sqlite3.Connection) -> None:
    """Fold what was written since the last search. `FIND` is right without it, only slower."""
    try:
        connection.execute(_ADD).close()
    except (sqlite3.OperationalError, sqlite3.IntegrityError) as error:  # a full disk
        log.warning("search goes on without its table: %s", error)
