"""Writes character cards as their programs do: PNG, JSON, .charx."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from typing import Any

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PIXEL = zlib.compress(b"\0\0")

V2: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Ada",
        "description": "{{char}} builds engines with {{user}}.",
        "personality": "exact",
        "scenario": "A workshop.",
        "first_mes": "Hello {{user}}, I am {{char}}.",
        "mes_example": "<START>\n{{user}}: Why?\n{{char}}: Because.",
        "creator_notes": "never in a prompt",
        "system_prompt": "{{original}} Speak as {{char}}.",
        "post_history_instructions": "Stay <BOT>.",
        "alternate_greetings": ["Again, <USER>?"],
        "character_book": {
            "entries": [
                {"keys": ["Mill"], "content": "The mill turns for {{char}}.", "enabled": True,
                 "insertion_order": 2, "extensions": {}},
                {"keys": [], "constant": True, "content": "@@depth 4\nIt is 1842.", "enabled": True,
                 "insertion_order": 1},
                {"keys": ["mill"], "content": "switched off", "enabled": False},
                {"keys": ["mi.*"], "use_regex": True, "content": "a pattern", "enabled": True},
            ]
        },
        "extensions": {"other/program": {"kept": [1, 2]}},
    },
}  # fmt: skip


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return SIGNATURE + head + b"".join(chunks) + chunk(b"IDAT", PIXEL) + chunk(b"IEND", b"")


def text_chunk(keyword: str, card: Any) -> bytes:
    packed = base64.b64encode(json.dumps(card).encode())
    return chunk(b"tEXt", keyword.encode() + b"\0" + packed)


def card_png(card: Any = V2, keyword: str = "chara") -> bytes:
    return png(text_chunk(keyword, card))


def charx(card: bytes, name: str = "card.json") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, card)
        archive.writestr("assets/icon.png", b"no picture")
    return file.getvalue()
