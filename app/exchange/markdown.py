"""A chat as Markdown, for people and for other programs: the path that is read, with its thoughts.

It is not read again: text may look like any of the marks. JSON is the form that loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.exchange.fields import items, table
from app.exchange.tree import ChatTree, Node

BETWEEN = "\n\n"
_HEADINGS = {"system": "System", "user": "User", "assistant": "Assistant"}


def chat_markdown(chat: ChatTree) -> str:
    path = chat.path()
    blocks = [_front_matter(chat, path), f"# {' '.join(chat.title.split())}"]
    for node in path:
        blocks += _message(node)
    return "\n\n".join(blocks) + "\n"


def _front_matter(chat: ChatTree, path: list[Node]) -> str:
    """Values are JSON, which YAML is a superset of."""
    models = dict.fromkeys(node.model for node in path if node.model)
    drafters = dict.fromkeys(
        str(name) for node in path for name in items(node.details.get("drafters"))
    )
    fields: dict[str, Any] = {
        "title": chat.title,
        "created": _moment(chat.created),
        "updated": _moment(chat.updated),
        "models": list(models),
        "drafters": list(drafters),
        **_figures(path),
    }
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value not in (None, [])
    ]
    return "\n".join(["---", *lines, "---"])


def _figures(path: list[Node]) -> dict[str, Any]:
    """Of all replies together, where they were written here."""
    stats = [table(node.details.get("stats")) for node in path]
    tokens, seconds = _sum(stats, "emitted"), _sum(stats, "decode_seconds")
    proposed, accepted = _sum(stats, "proposed"), _sum(stats, "accepted")
    return {
        "tokens": int(tokens) or None,
        "tokens_per_second": round(tokens / seconds, 1) if seconds > 0 else None,
        "drafts_accepted": round(accepted / proposed, 3) if proposed else None,
    }


def _sum(stats: Sequence[Mapping[str, Any]], name: str) -> float:
    numbers = (one.get(name) for one in stats)
    return sum(one for one in numbers if isinstance(one, int | float))


def _message(node: Node) -> Iterator[str]:
    yield f"## {_HEADINGS[node.role]}"
    if node.reasoning:
        yield f"<details>\n<summary>Thoughts</summary>\n\n{node.reasoning.strip()}\n\n</details>"
    if node.files:
        yield f"Files: {', '.join(file.name for file in node.files)}"
    if node.content:
        yield node.content.strip()


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
