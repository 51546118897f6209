"""What one chat, or a preset, sets instead of the general settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.characters.card import Character, character_of
from app.settings import Settings, settings_from_json
from engine.data.errors import BadOptionError
from engine.data.request import Message

PROMPT = "system_prompt"
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty")
OWN = (PROMPT, *SAMPLING)
_SPOKEN = ("name", "nickname", "post_history_instructions", "character_book")
"""Fields of a card that are used after a chat has begun."""


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """values: by the names of settings, only what is set. preset: where they came from, "" for
    nowhere. card: of the character that speaks, as its file had it."""

    values: Mapping[str, Any] = field(default_factory=dict)
    preset: str = ""
    card: Mapping[str, Any] | None = None

    def applied(self, general: Settings) -> Settings:
        return replace(general, **self.values)

    def changed(self, changes: Mapping[str, Any]) -> OwnSettings:
        """None puts a setting back to the general one. BadOptionError names what is wrong."""
        values = {**self.values, **changes}
        kept = {name: value for name, value in values.items() if value is not None}
        return replace(self, values=checked_values(kept))

    def of_a_chat(self) -> OwnSettings:
        """Without what only the beginning of a chat needs of a card."""
        if self.card is None:
            return self
        data = self.card.get("data", self.card)
        return replace(self, card={name: data[name] for name in _SPOKEN if name in data})

    def spoken(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """With what the character's card tells beside the last message of the user.

        Nothing earlier changes: what the caches hold of the chat stays good.
        """
        if self.card is None or not messages or messages[-1].role != "user":
            return messages
        character, last = character_of(self.card, ""), messages[-1]
        lore = character.lorebook.told([message.content for message in messages])
        parts = [part for part in (lore, last.content, character.after) if part]
        return (*messages[:-1], replace(last, content="\n\n".join(parts)))

    def to_json(self) -> dict[str, Any]:
        """As it is stored: empty where nothing is set."""
        values = dict(self.values)
        system = values.pop(PROMPT, None)
        stored: dict[str, Any] = {} if system is None else {"system": system}
        if values:
            stored["sampling"] = values
        if self.preset:
            stored["preset"] = self.preset
        if self.card is not None:
            stored["card"] = dict(self.card)
        return stored


NOTHING = OwnSettings()


def own_from_json(data: Any) -> OwnSettings:
    """Of `to_json`; what other versions keep beside is left out. BadOptionError for bad values,
    one of `engine.files.stored.MISREAD` for another shape."""
    values = {**data.get("sampling", {})}
    if "system" in data:
        values[PROMPT] = data["system"]
    preset, card = data.get("preset", ""), data.get("card")
    if not isinstance(preset, str) or not isinstance(card, dict | None):
        raise ValueError("the settings have no preset's name, or no card")
    if card is not None:
        character_of(card, "")
    return OwnSettings(checked_values(values), preset, card)


def own_of_character(card: Mapping[str, Any], general: Settings) -> tuple[Character, OwnSettings]:
    """A card as a preset. BadOptionError when it is none."""
    character = character_of(card, general.system_prompt)
    own = OwnSettings(checked_values({PROMPT: character.system}), card=card)
    return character, own


def checked_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """BadOptionError for a setting that is no chat's own, or a bad value."""
    unknown: Sequence[str] = [name for name in values if name not in OWN]
    if unknown:
        raise BadOptionError(f"a chat has no setting {unknown[0]!r} of its own")
    checked = asdict(settings_from_json({**asdict(Settings()), **values}))
    return {name: checked[name] for name in values}
