"""Character cards that are damaged, or made to do harm."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

import pytest

from app.characters.card import character_of
from app.characters.card_file import LARGEST_CARD, LARGEST_FILE, card_in
from app.characters.lorebook import MOST_ENTRIES
from engine.data.errors import BadOptionError
from tests.card_files import SIGNATURE, V2, card_png, charx, chunk, png

BOMB = charx(b" " * (LARGEST_CARD * 20))


def encrypted() -> bytes:
    content = bytearray(charx(json.dumps(V2).encode()))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(mark) + offset] |= 1
    return bytes(content)


def without_members() -> bytes:
    file = io.BytesIO()
    zipfile.ZipFile(file, "w").close()
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"PK", "damaged zip"),
        (SIGNATURE, "ends too early"),
        (card_png()[:-20], "ends too early"),
        (SIGNATURE + struct.pack(">I", 2**32 - 1) + b"tEXt", "ends too early"),
        (card_png().replace(b"IHDR", b"IHDX"), "checksum"),
        (png(), "without a character card"),
        (png(chunk(b"tEXt", b"chara\0!!!")), "damaged"),
        (png(chunk(b"tEXt", b"chara")), "without a character card"),
        (png(chunk(b"tEXt", b"chara\0" + b"W10=")), "no character card"),
        (SIGNATURE + chunk(b"tEXt", b"") * 20_000, "parts"),
        (charx(b"{}", "other.json"), "no card.json"),
        (without_members(), "no card.json"),
        (encrypted(), "encrypted"),
        (BOMB, "more than"),
        (b" " * (LARGEST_FILE + 1), "more than"),
        (b" " * (LARGEST_CARD + 1), "more than"),
        (b"[" * 100_000, "deep"),
        (b'"text"', "no character card"),
        ('{"name": "a"}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_without_a_sound_card_is_refused_and_says_why(content: bytes, said: str) -> None:
    with pytest.raises(BadOptionError, match=said):
        card_in(content, "the file")


def test_a_bomb_is_small_until_it_is_unpacked() -> None:
    assert len(BOMB) < 200_000


@pytest.mark.parametrize("card", [{}, {"name": 7}, {"name": "  "}, {"data": []}, {"data": {}}])
def test_a_card_has_a_name(card: Any) -> None:
    with pytest.raises(BadOptionError, match="has a name"):
        character_of(card, "")


@pytest.mark.parametrize("wrong", [None, 7, [], {}, True, [7, None], {"entries": 7}])
def test_fields_of_other_kinds_count_as_missing(wrong: Any) -> None:
    card = {"data": {name: wrong for name in V2["data"]} | {"name": "Ada", "extensions": wrong}}
    ada = character_of(card, "")
    assert (ada.system, ada.greetings, ada.after) == ("You are Ada, in a chat with User.", (), "")
    assert ada.lorebook.told(["mill"]) == ""


def test_a_lorebook_has_a_limit_of_entries() -> None:
    entries = [{"keys": ["k"], "content": "x"}] * (MOST_ENTRIES * 3)
    ada = character_of({"name": "Ada", "character_book": {"entries": entries}}, "")
    assert len(ada.lorebook.entries) == MOST_ENTRIES


@pytest.mark.parametrize("content", [card_png(), charx(json.dumps(V2).encode())])
def test_no_single_wrong_byte_leads_to_anything_but_a_refusal(content: bytes) -> None:
    for place in range(0, len(content), 7):
        spoiled = bytearray(content)
        spoiled[place] ^= 0xFF
        try:
            card = card_in(bytes(spoiled), "the file")
        except BadOptionError:
            continue
        assert isinstance(card, dict)
