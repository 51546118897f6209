"""What the page may ask of the Lab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.choices import drafter_options
from app.chosen import expressions
from app.conversations import Conversations
from app.lab import Lab, LabDrafter, LabRequest
from app.lab_prompts import MOST_PROMPTS, chosen_prompts
from app.model_service import ModelService
from app.names import Names
from app.session import Session
from engine.data.errors import BadOptionError

Arguments = dict[str, Any]


class LabActions:
    def __init__(self, lab: Lab, models: ModelService, store: Conversations, names: Names) -> None:
        self._lab = lab
        self._models = models
        self._store = store
        self._names = names

    def table(self) -> dict[str, Callable[[Session, Arguments], Any]]:
        return {
            "lab_start": self._start_lab,
            "lab_stop": self._stop_lab,
        }

    def states(self) -> dict[str, Any]:
        """What a page draws first."""
        return {"lab": self._lab.task.event()}

    def require_idle(self) -> None:
        """RequestError while something is measured that a load would spoil."""
        self._lab.task.require_idle()

    def close(self) -> None:
        self._lab.task.close()

    def _start_lab(self, session: Session, arguments: Arguments) -> None:
        self.require_idle()
        target = arguments["target"] or ""
        if not target:
            raise BadOptionError("choose a target first")
        max_tokens = arguments["max_tokens"]
        if not 8 <= max_tokens <= 1024:
            raise BadOptionError("tokens of a reply must be a number between 8 and 1,024")
        count = arguments["count"]
        recent = self._store.recent_prompts(4 * min(max(count, 1), MOST_PROMPTS))
        prompts = chosen_prompts(arguments["source"], count, arguments["pasted"], recent)
        drafters = self._drafters(target, arguments["drafters"])
        self._lab.start(LabRequest(target, drafters, prompts, max_tokens))

    def _stop_lab(self, session: Session, arguments: Arguments) -> None:
        self._lab.task.stop()

    def _drafters(self, target: str, chosen: list[list[Any]]) -> tuple[LabDrafter, ...]:
        """chosen: lists of drafters, each list one way to draft. Names as in the dropdown."""
        trained = self._models.trained(target)
        options = drafter_options(self._models.models(), target, self._models.obstacle, trained)
        self._names.learn(options)
        ways = dict.fromkeys(expressions(way) for way in chosen if way)
        return tuple(
            self._lab.drafter(way, " + ".join(map(self._names.of_drafter, way))) for way in ways
        )
