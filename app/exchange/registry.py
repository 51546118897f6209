"""Every format that can be read. A new one is a file with a FORMAT, and its line here."""

from __future__ import annotations

from app.exchange import (
    chatgpt,
    forerun_json,
    llama_server,
    lm_studio,
    open_webui,
    sharegpt,
)
from app.exchange.format import Format, Records

FORMATS: tuple[Format, ...] = (
    forerun_json.FORMAT,
    chatgpt.FORMAT,
    open_webui.FORMAT,
    llama_server.FORMAT,
    lm_studio.FORMAT,
    sharegpt.FORMAT,
)
_LOOKED_AT = 10


def format_of(records: Records) -> Format | None:
    """By the first records: a file may begin with one that is empty or damaged."""
    for record in records[:_LOOKED_AT]:
        for one in FORMATS:
            if isinstance(record, dict) and one.matches(record):
                return one
    return None


def known_formats() -> str:
    return "; ".join(f"{one.name} ({one.files})" for one in FORMATS)
