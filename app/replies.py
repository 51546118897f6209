"""One reply while it is being written: what arrived, its live figures, and when to save."""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import Any, assert_never

from app.chat_file import advice
from app.conversations import Conversations
from app.copied import copied_runs
from app.round_times import round_times
from app.session import Event
from app.thoughts import LiveThought, answer_of
from app.wire import WireEncoder, WireToken
from engine.control.payoff import PayoffMeter
from engine.data.errors import EngineError
from engine.data.events import Finished, Notice, PromptProgress, Queued, RunEvent
from engine.data.request import GenerateRequest
from engine.data.rounds import RoundTrace
from engine.data.stats import StatsCounter

log = logging.getLogger(__name__)
SAVE_INTERVAL = 1.0
FIGURES_INTERVAL = 0.1


class LiveReply:
    """Turns run events into page events and keeps the stored message up to date.

    Not thread-safe: the owner holds its lock around every call.
    """

    def __init__(self, message: int, conversation: int, store: Conversations, model: str) -> None:
        self.message = message
        self.conversation = conversation
        self.tokens: list[WireToken] = []
        self.details: dict[str, Any] = {"model": model, "drafters": [], "notices": []}
        self.finished = False
        self._store = store
        self._encoder = WireEncoder()
        self._thought = LiveThought()
        self._counter = StatsCounter()
        self._payoff = PayoffMeter()
        self._started = time.monotonic()
        self._first_round_at: float | None = None
        self._saved_at = self._figures_at = 0.0

    def take(self, event: RunEvent) -> Event:
        """The page's event for a run event."""
        match event:
            case Queued(place=place):
                return {"k": "queued", "m": self.message, "place": place}
            case PromptProgress(done=done, total=total, reused=reused):
                return {
                    "k": "prefill",
                    "m": self.message,
                    "done": done,
                    "total": total,
                    "reused": reused,
                }
            case RoundTrace():
                return self._round(event)
            case Notice(message=text):
                self.details["notices"].append(text)
                return {"k": "notice", "m": self.message, "text": text}
            case Finished():
                return self._finish(event)
            case _:
                assert_never(event)

    def answer_now(self) -> None:
        """The user has asked for the end of the thought; the run is told by the owner."""
        self._thought.is_asked = True

    def fail(self, error: EngineError) -> Event:
        self.details["error"] = {"kind": type(error).__name__, "message": str(error)}
        return self.end("failed")

    def end(self, finish: str) -> Event:
        """The last event. The figures so far stay with the reply if the run gave none."""
        self.finished = True
        self.details["finish"] = finish
        self.details.setdefault("stats", self._figures())
        self._compare()
        self.save()
        return self.ended()

    def ended(self) -> Event:
        return {"k": "end", "m": self.message, "details": dict(self.details)}

    def save_if_due(self) -> None:
        if time.monotonic() - self._saved_at >= SAVE_INTERVAL:
            self.save()

    def save(self) -> bool:
        """Whether it is stored. A full disk must not end the reply: it is told with it, and a later
        save may work."""
        self._saved_at = time.monotonic()
        text = answer_of(self.tokens, self.details)
        told = {"stats": self._figures(), **self.details}
        told.pop("unsaved", None)
        try:
            with self._store.atomic():
                self._store.save_reply(self.message, text, self.tokens, told, not self.finished)
        except sqlite3.Error as error:
            log.error("reply %d could not be saved: %s", self.message, error)
            self.details["unsaved"] = f"{error}: {advice(error)}"
            return False
        self.details.pop("unsaved", None)
        return True

    def _round(self, trace: RoundTrace) -> Event:
        now = time.monotonic()
        if self._first_round_at is None:
            self._first_round_at = now
        self._counter.add(trace)
        self._payoff.add(trace)
        self.details.setdefault("rounds", []).append(round_times(trace))
        known_drafters = len(self._encoder.drafters)
        added = self._encoder.encode(trace)
        event: Event = {"k": "tok", "m": self.message, "at": len(self.tokens), "add": added}
        thought = self._thought.add(trace)
        if thought is not None:
            self.details["reasoning"] = event["reasoning"] = thought
        copied = copied_runs(trace, len(self.tokens))
        if copied:
            self.details.setdefault("copied", []).extend(copied)
            event["copied"] = copied
        self.tokens.extend(added)
        if len(self._encoder.drafters) != known_drafters:
            self.details["drafters"] = event["drafters"] = list(self._encoder.drafters)
        if now - self._figures_at >= FIGURES_INTERVAL:
            self._figures_at = now
            event["stats"] = self._figures()
            self._compare()
            if "payoff" in self.details:
                event["payoff"] = self.details["payoff"]
        return event

    def _finish(self, event: Finished) -> Event:
        self.details |= {
            "seed": event.seed,
            "prompt_tokens": event.prompt_tokens,
            "reused_prompt_tokens": event.reused_prompt_tokens,
            "stats": event.stats.to_json(),
        }
        if not event.exact:
            self.details["exact"] = False
        if event.identical:
            self.details["identical"] = True
        return self.end(event.finish)

    def _compare(self) -> None:
        """With plain decoding, as far as it is known what that takes."""
        payoff = self._payoff.payoff
        if payoff is not None:
            self.details["payoff"] = payoff.to_json()

    def _figures(self) -> dict[str, Any]:
        figures = self._counter.snapshot().to_json()
        if self._first_round_at is not None:
            figures["prefill_seconds"] = self._first_round_at - self._started
        return figures


def verified_by(request: GenerateRequest) -> dict[str, Any]:
    """What decides the rule that drafts are verified by: `details.verified`."""
    drafting = request.drafting
    return {
        "greedy": request.sampling.temperature == 0.0,
        "coupling": drafting.coupling,
        "acceptance": drafting.acceptance,
    }
