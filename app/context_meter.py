"""How full the context is while a message is typed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.chat import Chat
from engine.data.errors import EngineError
from engine.process.protocols import TokenCounter


class ContextMeter:
    def __init__(self, engine: TokenCounter, chat: Chat) -> None:
        self._engine = engine
        self._chat = chat

    def count(self, conversation: int | None, text: str) -> dict[str, Any] | None:
        """tokens, limit, dropped, refused as in PromptSize; typed: tokens of the text.

        None where it cannot be counted: there is no model, or it is just going, or its template
        fails, which whoever sends the message is told.
        """
        loaded = self._engine.loaded
        if loaded is None:
            return None
        request = self._chat.request_with(conversation, text)
        if request is None:
            limit = loaded.target.context_length
            return {"tokens": 0, "limit": limit, "dropped": 0, "refused": "", "typed": 0}
        try:
            size = asdict(self._engine.count(request, (text,)))
        except EngineError:
            return None
        (typed,) = size.pop("texts")
        return size | {"typed": typed}
