"""What the page may ask of presets, and of the settings of one chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from app.characters.card import character_of
from app.characters.card_file import card_in
from app.chat import Chat
from app.loading import Loading
from app.own_settings import NOTHING, OWN, OwnSettings, own_of_character
from app.preferences import PreferencesFile
from app.presets import PresetsFile, chosen
from app.session import Session
from engine.models.sampling_advice import sampling_advice

Arguments = dict[str, Any]


class PresetActions:
    """file: the presets themselves."""

    def __init__(
        self, presets: PresetsFile, chat: Chat, preferences: PreferencesFile, loading: Loading
    ) -> None:
        self.file = presets
        self._chat = chat
        self._preferences = preferences
        self._loading = loading

    @property
    def problem(self) -> str:
        return self.file.problem

    def table(self) -> dict[str, Callable[[Session, Arguments], Any]]:
        return {
            "chat_settings": lambda _, arguments: self._state(arguments["conversation"]),
            "chat_set": self._set,
            "chat_preset": self._choose,
            "preset_save": self._save,
            "preset_step": self._step,
        }

    def take(self, content: bytes, name: str) -> dict[str, Any]:
        """A character card's file as a preset. BadOptionError when it holds none."""
        card = card_in(content, name)
        character, own = own_of_character(card, self._preferences.current.settings)
        entries = len(character.lorebook.entries)
        saved = self.file.add(character.name, own)
        return {"name": saved, "greetings": len(character.greetings), "entries": entries}

    def _set(self, _session: Session, arguments: Arguments) -> Any:
        own = self._own(arguments["conversation"]).changed(arguments["changes"])
        return self._keep(arguments["conversation"], own)

    def _choose(self, _session: Session, arguments: Arguments) -> Any:
        """A chat gets a copy of the preset; without one, nothing of its own is left."""
        conversation, name = arguments["conversation"], arguments["preset"]
        if name is None:
            return self._keep(conversation, NOTHING)
        preset = self.file.require(name)
        state = self._keep(conversation, chosen(preset))
        if preset.own.card is not None:
            self._chat.greet(state["conversation"], character_of(preset.own.card, ""))
        return state

    def _save(self, _session: Session, arguments: Arguments) -> Any:
        """What holds in the chat now, under a name."""
        conversation = arguments["conversation"]
        now = self._own(conversation)
        origin = self.file.current.get(now.preset)
        if now.card is not None and origin is not None and origin.own.card is not None:
            now = replace(now, card=origin.own.card)  # whole: the chat has only what it needs
        own = now.changed(self._values(now))
        self.file.save(arguments["name"], own, arguments["over"])
        return self._state(conversation)

    def _step(self, _session: Session, arguments: Arguments) -> Any:
        name, step, to = arguments["name"], arguments["step"], arguments["to"]
        if step == "rename":
            self.file.rename(name, to or "")
        elif step == "delete":
            self.file.delete(name)
        else:
            self.file.set_default(name)
        return self._state(arguments["conversation"])

    def _keep(self, conversation: int | None, own: OwnSettings) -> Any:
        """A chat that is not there yet begins with them."""
        if conversation is None:
            conversation = self._chat.shelf.begin(own)
            self._chat.announce()
        else:
            self._chat.shelf.set_own(conversation, own)
        return self._state(conversation)

    def _own(self, conversation: int | None) -> OwnSettings:
        if conversation is None:
            return self.file.of_new_chats()
        return self._chat.shelf.own(conversation)

    def _values(self, own: OwnSettings) -> dict[str, Any]:
        everything = asdict(own.applied(self._preferences.current.settings))
        return {name: everything[name] for name in OWN}

    def _state(self, conversation: int | None) -> dict[str, Any]:
        """own: names of what the chat sets itself. advice: of the loaded model's maker, or None."""
        own, presets = self._own(conversation), self.file.current
        character = "" if own.card is None else character_of(own.card, "").name
        return {
            "conversation": conversation,
            "values": self._values(own),
            "own": list(own.values),
            "preset": own.preset,
            "character": character,
            "advice": self._advice(),
            "presets": [
                {"name": one.name, "character": one.own.card is not None} for one in presets.items
            ],
            "default": presets.default,
        }

    def _advice(self) -> dict[str, Any] | None:
        loaded = self._loading.state()["loaded"]
        if loaded is None:
            return None
        target = loaded["target"]
        names = (target["id"], target["path"].replace("\\", "/").rpartition("/")[2])
        found = sampling_advice(*names, target["description"])
        return None if found is None else asdict(found)
