"""What a run tells its consumer: plain data, in order, picklable and JSON-friendly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.data.rounds import ReplyPart, RoundTrace
from engine.data.stats import Stats

FinishReason = Literal["eos", "length", "context", "cancelled"]


@dataclass(frozen=True, slots=True)
class Queued:
    """Other requests come first. place: 1 means next."""

    place: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prefill, in tokens. reused: already in the KV cache from the turn before.

    vocabulary: its identity, of which the reply's tokens will be; told at the beginning.
    """

    done: int
    total: int
    reused: int
    vocabulary: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that does not end the run (a drafter was dropped, ...)."""

    message: str


@dataclass(frozen=True, slots=True)
class RetoldToken:
    """text: what it adds to the thought or to the answer, whichever it is part of."""

    text: str
    part: ReplyPart


@dataclass(frozen=True, slots=True)
class Retold:
    """All tokens of the continuation, before the first round is told: what follows them may
    complete a character or a marker, so that the last ones may mean another text than they did."""

    tokens: tuple[RetoldToken, ...]


@dataclass(frozen=True, slots=True)
class Thought:
    """start, end: the reply's tokens that it is made of, its markers among them."""

    text: str
    start: int
    end: int

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "from": self.start, "to": self.end}


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run. text: the reply, of a model that thinks its answer; tokens are all. Of a
    reply with a continuation these, the thought and the figures are what is new.
    thought: what came before the answer. stats: its figures, one definition for everyone.

    exact: whether the text follows the target's own distribution; typical acceptance changes it.
    identical: whether it is the same byte for byte with and without drafting, by the numerics and
    by how it was drawn.
    """

    text: str
    tokens: tuple[int, ...]
    finish: FinishReason
    prompt_tokens: int
    reused_prompt_tokens: int
    seed: int
    stats: Stats
    exact: bool = True
    identical: bool = False
    thought: Thought | None = None

    @classmethod
    def before_anything(cls, seed: int | None) -> Finished:
        """Of a run that was cancelled before its prompt was there."""
        return cls("", (), "cancelled", 0, 0, seed or 0, Stats())

    def to_json(self) -> dict[str, Any]:
        """The fixed object of `forerun generate --json`; a text that is not exact says so."""
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "finish": self.finish,
            "prompt_tokens": self.prompt_tokens,
            "reused_prompt_tokens": self.reused_prompt_tokens,
            "seed": self.seed,
            "stats": self.stats.to_json(),
            **({} if self.exact else {"exact": False, "acceptance": "typical"}),
            **({"identical": True} if self.identical else {}),
            **({"reasoning": self.thought.to_json()} if self.thought is not None else {}),
        }


RunEvent = Queued | PromptProgress | Retold | RoundTrace | Notice | Finished
