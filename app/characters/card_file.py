"""The card that a file carries: a PNG with a text in it, JSON, or a .charx archive.

All sizes are checked while reading. Nothing a card names is fetched.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
import zipfile
import zlib
from typing import Any

from app.characters.png import SIGNATURE, texts
from app.exchange.source import check_directory, unpacked
from engine.data.documents import DocumentError, parse_json
from engine.data.errors import BadOptionError

LARGEST_FILE = 30_000_000
"""Bytes of a whole file: most of it is a picture."""
LARGEST_CARD = 4_000_000
"""Bytes of the card in it."""
_MEMBER = "card.json"
_KEYWORDS = ("ccv3", "chara")
"""Of the PNG's texts, the newer first."""


def card_in(content: bytes, name: str) -> dict[str, Any]:
    """The card's JSON as it stands. BadOptionError when there is none, or it cannot be read."""
    if len(content) > LARGEST_FILE:
        raise BadOptionError(f"{name} has more than {LARGEST_FILE:,} bytes, which is the limit")
    if content.startswith(SIGNATURE):
        packed = _from_png(content, name)
    elif content.startswith(b"PK"):
        packed = _from_archive(content, name)
    else:
        packed = content
    if len(packed) > LARGEST_CARD:
        raise BadOptionError(f"the card in {name} has more than {LARGEST_CARD:,} bytes")
    try:
        card = parse_json(packed, repair=True)
    except DocumentError as error:
        raise BadOptionError(f"{name} {error}; cards come as PNG, as JSON or as .charx") from error
    if not isinstance(card, dict):
        raise BadOptionError(f"{name} holds no character card")
    return card


def _from_png(content: bytes, name: str) -> bytes:
    found = texts(content, name)
    keyword = next((one for one in _KEYWORDS if one in found), None)
    if keyword is None:
        raise BadOptionError(f"{name} is a picture without a character card in it")
    try:
        return base64.b64decode(b"".join(found[keyword].split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadOptionError(f"the card in {name} is damaged: {error}") from error


def _from_archive(content: bytes, name: str) -> bytes:
    file = io.BytesIO(content)
    check_directory(file, name)
    try:
        with zipfile.ZipFile(file) as archive:
            packed = unpacked(archive, archive.getinfo(_MEMBER), LARGEST_CARD)
    except KeyError as error:
        raise BadOptionError(f"{name} has no {_MEMBER} in it") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError) as error:
        raise BadOptionError(f"{name} is a damaged archive: {error}") from error
    if packed is None:
        raise BadOptionError(f"{name} is encrypted, or packed in a way that is not read")
    return packed
