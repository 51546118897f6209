"""What an import brought, in words and for the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.exchange.importing import FoundFile

MOST_NAMED = 100
"""Of what was left out."""


def summary_json(found: FoundFile, messages: int) -> dict[str, Any]:
    """beside: messages that are not on the path: other versions, system texts."""
    return {
        "formats": found.formats,
        "chats": len(found.chats),
        "messages": messages,
        "beside": found.messages - messages,
        "skipped": [asdict(one) for one in found.skipped[:MOST_NAMED]],
        "skipped_count": len(found.skipped),
    }


def summary_lines(summary: dict[str, Any]) -> list[str]:
    formats = " and ".join(summary["formats"])
    lines = [
        f"{_counted(summary['chats'], 'chat')} with {_counted(summary['messages'], 'message')}"
        f" imported ({formats})"
    ]
    if summary["beside"]:
        lines.append(
            f"{_counted(summary['beside'], 'other message')} with them:"
            " other versions, system texts"
        )
    lines += [f"left out: {one['what']}: {one['reason']}" for one in summary["skipped"]]
    unnamed = summary["skipped_count"] - len(summary["skipped"])
    return [*lines, f"left out: {unnamed:,} more"] if unnamed else lines


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
