"""What the page may ask of the list of chats: pins and folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.chat import Chat
from app.session import Session

Arguments = dict[str, Any]


class ShelfActions:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def table(self) -> dict[str, Callable[[Session, Arguments], Any]]:
        return {"pin": self._pin, "move": self._move, "rename_folder": self._rename}

    def _pin(self, _session: Session, arguments: Arguments) -> None:
        self._chat.shelf.set_pinned(arguments["conversation"], arguments["pinned"])
        self._chat.announce()

    def _move(self, _session: Session, arguments: Arguments) -> None:
        self._chat.shelf.set_folder(arguments["conversation"], arguments["folder"])
        self._chat.announce()

    def _rename(self, _session: Session, arguments: Arguments) -> None:
        self._chat.shelf.rename_folder(arguments["folder"], arguments["to"])
        self._chat.announce()
