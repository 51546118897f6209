"""One reply while it is being written: what arrived, its live figures, and when to save."""

from __future__ import annotations

import logging
import sqlite3
import time
from dataclasses import replace
from typing import Any, assert_never

from app.beginning import Beginning
from app.chat_file import advice
from app.conversations import Conversations
from app.copied import copied_runs, moved
from app.round_times import cost_of, round_times
from app.session import Event
from app.thoughts import LiveThought, answer_of
from app.token_ids import TokenIds
from app.wire import WireEncoder
from engine.control.payoff import PayoffMeter, RoundCost
from engine.data.errors import EngineError
from engine.data.events import Finished, Notice, PromptProgress, Queued, Retold, RunEvent
from engine.data.request import GenerateRequest
from engine.data.rounds import RoundTrace
from engine.data.stats import Stats, StatsCounter

log = logging.getLogger(__name__)
SAVE_INTERVAL = 1.0
FIGURES_INTERVAL = 0.1


class LiveReply:
    """Turns run events into page events and keeps the stored message up to date.

    Not thread-safe: the owner holds its lock around every call.
    """

    def __init__(
        self,
        message: int,
        conversation: int,
        store: Conversations,
        model: str,
        begun: Beginning | None = None,
    ) -> None:
        begun = begun or Beginning(TokenIds())
        self.message = message
        self.conversation = conversation
        self.ids = begun.ids
        self.tokens = begun.tokens
        self.details = {"drafters": [], "notices": [], **begun.details, "model": model}
        self.finished = False
        self._store = store
        self._begun = len(begun.tokens)
        self._was = begun.finish
        self._earlier = stats_of(self.details.pop("stats", None))
        self._encoder = WireEncoder(self.details["drafters"])
        self._thought = LiveThought(self._begun, self.details.get("reasoning"))
        self._counter = StatsCounter()
        self._payoff = PayoffMeter()
        for times in self.details.get("rounds", ()):
            self._payoff.add(cost_of(times))
        self._started = time.monotonic()
        self._first_round_at: float | None = None
        self._saved_at = self._figures_at = 0.0

    def take(self, event: RunEvent) -> Event | None:
        """The page's event for a run event; None where nothing changes for it."""
        match event:
            case Queued(place=place):
                return {"k": "queued", "m": self.message, "place": place}
            case PromptProgress(done=done, total=total, reused=reused):
                self._know_prompt(event)
                return {
                    "k": "prefill",
                    "m": self.message,
                    "done": done,
                    "total": total,
                    "reused": reused,
                }
            case Retold():
                return self._retell(event)
            case RoundTrace():
                return self._round(event)
            case Notice(message=text):
                self.details["notices"].append(text)
                return {"k": "notice", "m": self.message, "text": text}
            case Finished():
                return self.finish(event)
            case _:
                assert_never(event)

    def answer_now(self) -> None:
        """The user has asked for the end of the thought; the run is told by the owner."""
        self._thought.is_asked = True

    def fail(self, error: EngineError) -> Event:
        if self._was and len(self.tokens) == self._begun:
            return self._stay(f"the reply could not go on: {error}")
        self.details["error"] = {"kind": type(error).__name__, "message": str(error)}
        return self.end("failed")

    def _stay(self, why: str) -> Event:
        """As it was before it was to go on."""
        if why not in self.details["notices"]:
            self.details["notices"].append(why)
        return self.end(self._was)

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
                self._store.save_ids(self.message, self.ids.to_json())
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
        cost = RoundCost.of(trace)
        self._counter.add(trace)
        self._payoff.add(cost)
        self.details.setdefault("rounds", []).append(round_times(cost))
        self.ids.add(trace)
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

    def finish(self, event: Finished) -> Event:
        if self._was and len(self.tokens) == self._begun:
            return self.end(self._was if event.finish == "cancelled" else event.finish)
        self.details |= {
            "seed": event.seed,
            "prompt_tokens": event.prompt_tokens,
            "reused_prompt_tokens": event.reused_prompt_tokens,
            "stats": (self._earlier + event.stats).to_json(),
        }
        if not event.exact:
            self.details["exact"] = False
        if event.identical and (not self._begun or "identical" in self.details):
            self.details["identical"] = True
        else:
            self.details.pop("identical", None)
        return self.end(event.finish)

    def _know_prompt(self, event: PromptProgress) -> None:
        """Another model may have been loaded since the reply was asked for. Of one that goes on,
        what it answers may have another length than before."""
        if event.vocabulary:
            self.ids.vocabulary = event.vocabulary
        before, tokens = self.details.get("prompt_tokens"), event.total + 1 - self._begun
        if self._begun and before is not None and before != tokens:
            moved(self.details.get("copied", []), before, tokens)
            self.details["prompt_tokens"] = tokens

    def _retell(self, event: Retold) -> Event | None:
        """The page draws anew where the end of what was there means another text now."""
        thought = self._thought.retell([one.part for one in event.tokens])
        changed = thought != self.details.get("reasoning")
        for token, told in zip(self.tokens, event.tokens, strict=True):
            changed = changed or token[0] != told.text
            token[0] = told.text
        if thought is not None:
            self.details["reasoning"] = thought
        else:
            self.details.pop("reasoning", None)
        return {"k": "changed"} if changed else None

    def _compare(self) -> None:
        """With plain decoding, as far as it is known what that takes."""
        payoff = self._payoff.payoff
        if payoff is not None:
            self.details["payoff"] = payoff.to_json()

    def _figures(self) -> dict[str, Any]:
        figures = self._counter.snapshot()
        if self._first_round_at is not None:
            figures = replace(figures, prefill_seconds=self._first_round_at - self._started)
        return (self._earlier + figures).to_json()


def stats_of(kept: Any) -> Stats:
    """Of stored figures; nothing where there are none, or where they are damaged."""
    try:
        return Stats() if kept is None else Stats.from_json(kept)
    except (KeyError, TypeError, AttributeError):
        log.warning("the figures of a reply that goes on are damaged: they begin anew")
        return Stats()


def verified_by(request: GenerateRequest) -> dict[str, Any]:
    """What decides the rule that drafts are verified by: `details.verified`."""
    drafting = request.drafting
    return {
        "greedy": request.sampling.temperature == 0.0,
        "coupling": drafting.coupling,
        "acceptance": drafting.acceptance,
    }
