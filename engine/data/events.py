"""What a run tells its consumer: plain data, in order, picklable and JSON-friendly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.data.stats import Stats

TokenKind = Literal["accepted", "correction", "bonus", "plain"]
FinishReason = Literal["eos", "length", "context", "cancelled"]
TRACE_VERSION = 1


@dataclass(frozen=True, slots=True)
class ProposedToken:
    """One node of a proposal after verification.

    parent: index into the round's proposed tokens, -1 for the root. p: the target's probability
    after truncation on this node's own prefix. q: the draft distribution's, None for point masses.
    """

    token: int
    text: str
    parent: int
    depth: int
    drafter: str
    p: float
    q: float | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """One token of the reply. depth: its place in the proposal, from 1; None if not drafted.

    text may be "" while a multi-byte character is incomplete; the token that completes the
    character carries all of it.
    """

    token: int
    text: str
    kind: TokenKind
    drafter: str | None
    p: float
    q: float | None
    depth: int | None


@dataclass(frozen=True, slots=True)
class JudgedPrediction:
    """What a member of an ensemble would have proposed below node `parent`, -1 for the root.

    agreement: the chance that the target would have kept it. on_path: whether the prefix it was
    asked on became the reply's text; only these count.
    """

    drafter: str
    parent: int
    token: int
    text: str
    confidence: float
    agreement: float
    on_path: bool


@dataclass(frozen=True, slots=True)
class RoundSeconds:
    draft: float
    target: float
    other: float

    @property
    def total(self) -> float:
        return self.draft + self.target + self.other


@dataclass(frozen=True, slots=True)
class RoundTrace:
    """One propose - verify - commit cycle. position: tokens in the context before the round.

    ballots: empty unless an ensemble drafted.
    """

    round: int
    position: int
    proposed: tuple[ProposedToken, ...]
    emitted: tuple[EmittedToken, ...]
    seconds: RoundSeconds
    parked: bool
    ballots: tuple[JudgedPrediction, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fixed trace line of `forerun generate --trace`; ensembles add their ballots."""
        ballots = [asdict(ballot) for ballot in self.ballots]
        return {
            "round": self.round,
            "position": self.position,
            "proposed": [
                {
                    "token": node.token,
                    "text": node.text,
                    "parent": node.parent,
                    "drafter": node.drafter,
                    "p": node.p,
                    "q": node.q,
                    "accepted": node.accepted,
                }
                for node in self.proposed
            ],
            "emitted": [
                {
                    "token": emitted.token,
                    "text": emitted.text,
                    "kind": emitted.kind,
                    "drafter": emitted.drafter,
                    "p": emitted.p,
                    "q": emitted.q,
                    "depth": emitted.depth,
                }
                for emitted in self.emitted
            ],
            "seconds": {
                "draft": self.seconds.draft,
                "target": self.seconds.target,
                "other": self.seconds.other,
            },
            "parked": self.parked,
            **({"ballots": ballots} if ballots else {}),
        }


@dataclass(frozen=True, slots=True)
class Queued:
    """Other requests come first. place: 1 means next."""

    place: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prefill, in tokens. reused: already in the KV cache from the turn before."""

    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that does not end the run (a drafter was dropped, ...)."""

    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run. text: the whole reply. stats: its figures, one definition for everyone.

    exact: whether the text follows the target's own distribution; typical acceptance changes it.
    """

    text: str
    tokens: tuple[int, ...]
    finish: FinishReason
    prompt_tokens: int
    reused_prompt_tokens: int
    seed: int
    stats: Stats
    exact: bool = True

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
        }


RunEvent = Queued | PromptProgress | RoundTrace | Notice | Finished
