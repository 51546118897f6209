"""ShareGPT: {conversations: [{from: human | gpt | system, value}]}, in a list or one in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.fields import items, table, text
from app.exchange.format import Format
from app.exchange.linear import chained
from app.exchange.thoughts import split_thoughts
from app.exchange.tree import FoundChat, FoundMessage, Role

_ROLES: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
}


def _matches(record: Mapping[str, Any]) -> bool:
    turns = items(record.get("conversations"))
    return bool(turns) and all("from" in table(turn) and "value" in table(turn) for turn in turns)


def _read(record: Any) -> FoundChat:
    chat = table(record)
    turns = map(table, items(chat.get("conversations")))
    messages = chained(_message(str(place), turn) for place, turn in enumerate(turns))
    return FoundChat(title=text(chat.get("title")), messages=messages)


def _message(name: str, turn: Mapping[str, Any]) -> FoundMessage:
    role = _ROLES.get(text(turn.get("from")).lower())
    content, reasoning = text(turn.get("value")), ""
    if role == "assistant":
        reasoning, content = split_thoughts(content)
    kept = role is not None and bool(content or reasoning)
    return FoundMessage(name, None, role or "system", content, reasoning, kept=kept)


FORMAT = Format("ShareGPT", "JSON or JSONL with from and value", _matches, _read)
