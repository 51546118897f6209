"""What is kept of a chat besides its messages: its own settings, its pin, its folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from app.conversations import UNTITLED, Conversations, title_of
from app.own_settings import NOTHING, OwnSettings, own_from_json
from engine.data.documents import DocumentError, parse_json
from engine.data.errors import BadOptionError
from engine.files.stored import MISREAD

_LOG = logging.getLogger(__name__)
LONGEST_FOLDER = 100


class Shelf:
    """Of the chats in `store`."""

    def __init__(self, store: Conversations) -> None:
        self._store = store

    def own(self, conversation: int) -> OwnSettings:
        """Nothing of its own where that is damaged: then the general settings hold."""
        with self._store.reading() as connection:
            row = connection.execute(
                "select settings from conversations where id = ?", (conversation,)
            ).fetchone()
        try:
            return NOTHING if row is None else own_from_json(parse_json(str(row[0]), repair=True))
        except (BadOptionError, DocumentError, *MISREAD) as error:
            _LOG.warning("the settings of chat %d cannot be read: %s", conversation, error)
            return NOTHING

    def set_own(self, conversation: int, own: OwnSettings) -> None:
        text = json.dumps(own.to_json(), ensure_ascii=False)
        self._set("update conversations set settings = ? where id = ?", text, conversation)

    def set_pinned(self, conversation: int, pinned: bool) -> None:
        change = "update conversations set pinned = ? where id = ?"
        self._set(change, int(pinned), conversation)

    def set_folder(self, conversation: int, folder: str) -> None:
        """ "" takes it out of its folder; a folder is there as long as something is in it."""
        change = "update conversations set folder = ? where id = ?"
        self._set(change, cleaned_folder(folder), conversation)

    def rename_folder(self, folder: str, new: str) -> None:
        """A folder that has the new name gets all that is in it."""
        change = "update conversations set folder = ? where folder = ?"
        self._set(change, cleaned_folder(new), folder)

    def begin(self, own: OwnSettings) -> int:
        """A chat before anything was written."""
        with self._store.atomic():
            conversation = self._store.create("").id
            self.set_own(conversation, own)
        return conversation

    def greet(self, conversation: int, name: str, greetings: Sequence[str]) -> bool:
        """The character says something first, if nothing was written yet; whether it did. Other
        greetings are versions of the first."""
        with self._store.atomic():
            if not greetings or self._store.messages(conversation):
                return False
            self._store.rename(conversation, name)
            details = {"model": name, "drafters": [], "notices": []}
            made = []
            for text in greetings:
                token: list[Any] = [text, "p", None, None, None, None]
                made.append(self._store.add_reply(conversation, None, text, [token], details))
            self._store.select(made[0])
        return True

    def name(self, conversation: int, first_message: str) -> None:
        """Of a chat that was begun without a message."""
        self._store.change(
            "update conversations set title = ? where id = ? and title = ? and not exists"
            " (select 1 from messages where conversation = conversations.id)",
            title_of(first_message),
            conversation,
            UNTITLED,
        )

    def folders(self) -> list[dict[str, str | int]]:
        """Names in order, and how many chats are in each."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "select folder, count(*) from conversations where folder != '' and not deleted"
                " group by folder order by fold(folder), folder"
            ).fetchall()
        return [{"name": name, "count": count} for name, count in rows]

    def _set(self, change: str, *values: object) -> None:
        if not self._store.change(change, *values):
            raise BadOptionError("that chat is gone; reload the page")


def cleaned_folder(name: str) -> str:
    return " ".join(name.split())[:LONGEST_FOLDER]
