"""Character cards: what is read of each form of file, and what a chat gets of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.characters.card import character_of
from app.characters.card_file import card_in
from app.characters.lorebook import MOST_CHARACTERS, lorebook_of
from app.own_settings import own_of_character
from app.settings import Settings
from engine.data.request import Message
from tests.card_files import V2, card_png, charx, png, text_chunk

V1 = {"name": "Bo", "description": "A cat.", "first_mes": "Meow."}


@pytest.mark.parametrize(
    "content", [card_png(), json.dumps(V2).encode(), charx(json.dumps(V2).encode())]
)
def test_every_form_of_file_gives_the_card_as_it_stands(content: bytes) -> None:
    assert card_in(content, "ada") == V2


def test_the_newer_of_two_texts_in_a_picture_is_the_card() -> None:
    newer = {"spec": "chara_card_v3", "data": {"name": "Ada III"}}
    both = png(text_chunk("chara", V2), text_chunk("ccv3", newer))
    assert card_in(both, "ada") == newer


def test_what_a_chat_is_told_of_a_character() -> None:
    ada = character_of(V2, "Be brief.")
    assert ada.name == "Ada"
    assert ada.system == (
        "Be brief. Speak as Ada.\n\nAda builds engines with User.\n\nPersonality of Ada: exact\n\n"
        "Scenario: A workshop.\n\nExamples of how Ada talks:\n***\nUser: Why?\nAda: Because."
    )
    assert ada.greetings == ("Hello User, I am Ada.", "Again, User?")
    assert ada.after == "Stay Ada."


def test_a_flat_card_of_the_first_version() -> None:
    bo = character_of(V1, "")
    assert (bo.name, bo.greetings, bo.after) == ("Bo", ("Meow.",), "")
    assert bo.system == "You are Bo, in a chat with User.\n\nA cat."
    assert character_of(V1, "Be brief.").system == "Be brief.\n\nA cat."


def test_a_nickname_is_the_name_in_the_texts() -> None:
    card = {"data": {"name": "Ada Lovelace", "nickname": "Ada", "first_mes": "{{ CHAR }} here"}}
    assert character_of(card, "").greetings == ("Ada here",)


def test_lore_is_told_beside_the_last_message_and_nothing_earlier_changes() -> None:
    _, own = own_of_character(V2, Settings())
    spoken = own.of_a_chat().spoken
    system, first = Message("system", "s"), Message("user", "hello")
    assert spoken((system, first)) == (system, Message("user", "It is 1842.\n\nhello\n\nStay Ada."))
    later = (system, first, Message("assistant", "hi"), Message("user", "the MILL?"))
    assert spoken(later)[:3] == later[:3]
    assert spoken(later)[3].content == (
        "It is 1842.\n\nThe mill turns for Ada.\n\nthe MILL?\n\nStay Ada."
    )


def test_keys_count_in_the_last_messages_only() -> None:
    entry = {"keys": ["Mill"], "content": "lore", "case_sensitive": True}
    book = lorebook_of({"scan_depth": 2, "entries": [entry]}, lambda text: text)
    assert book.told(["a", "Mill", "b"]) == "lore"
    assert book.told(["Mill", "a", "b"]) == "" and book.told(["mill"]) == ""


def test_a_second_key_must_turn_up_where_the_entry_asks_for_it() -> None:
    entry = {"keys": ["a"], "secondary_keys": ["b"], "selective": True, "content": "both"}
    book = lorebook_of({"entries": [entry]}, lambda text: text)
    assert (book.told(["a"]), book.told(["b"]), book.told(["a b"])) == ("", "", "both")


def test_lore_has_a_limit_and_the_first_in_order_come_first() -> None:
    half = "x" * (MOST_CHARACTERS // 2)
    entries: list[dict[str, Any]] = [
        {"constant": True, "content": mark + half[1:], "insertion_order": order}
        for mark, order in (("c", 3), ("a", 1), ("b", 2))
    ]
    told = lorebook_of({"entries": entries}, lambda text: text).told([])
    assert [part[0] for part in told.split("\n\n")] == ["a", "b"]
