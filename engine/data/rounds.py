"""What one round did, token by token: plain data, and the fixed line of `--trace`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

TokenKind = Literal["accepted", "correction", "bonus", "plain"]
ReplyPart = Literal["answer", "thought"]
TRACE_VERSION = 1


@dataclass(frozen=True, slots=True)
class CopySource:
    """Where a lookup read a token. text: number of the earlier text, None for the chat at hand.

    place: of the token in that text, or in the prompt and the reply so far.
    """

    text: int | None
    place: int


@dataclass(frozen=True, slots=True)
class ProposedToken:
    """One node of a proposal after verification.

    parent: index into the round's proposed tokens, -1 for the root. p: the target's probability
    after truncation on this node's own prefix. q: the draft distribution's, None for point masses.
    source: of what a lookup proposed, where it was copied from.
    """

    token: int
    text: str
    parent: int
    depth: int
    drafter: str
    p: float
    q: float | None
    accepted: bool
    source: CopySource | None = None


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """One token of the reply. depth: its place in the proposal, from 1; None if not drafted.

    text may be "" while a multi-byte character is incomplete; the token that completes the
    character carries all of it. part, said: of replies with thoughts: what the token belongs to,
    and what it adds to that, None for all of its text; a marker adds nothing.
    source: as of the proposed token that it was. forced: it was given to the reply and not drawn,
    so that p says nothing of how it came.
    """

    token: int
    text: str
    kind: TokenKind
    drafter: str | None
    p: float
    q: float | None
    depth: int | None
    part: ReplyPart = "answer"
    said: str | None = None
    source: CopySource | None = None
    forced: bool = False

    @property
    def shown(self) -> str:
        """What it adds to the thought or to the answer."""
        return self.text if self.said is None else self.said

    def to_json(self) -> dict[str, Any]:
        """Of a reply without thoughts, the fixed keys alone."""
        return {
            "token": self.token,
            "text": self.text,
            "kind": self.kind,
            "drafter": self.drafter,
            "p": None if self.forced else self.p,
            "q": self.q,
            "depth": self.depth,
            **({} if self.part == "answer" else {"part": self.part}),
            **({} if self.said is None else {"said": self.said}),
        }


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

    predictions: empty unless an ensemble drafted. plain: seconds of the target's pass over a single
    token at this place and time, None if that is not measured. reading: seconds in which the
    drafter read the prompt, in the first round.
    """

    round: int
    position: int
    proposed: tuple[ProposedToken, ...]
    emitted: tuple[EmittedToken, ...]
    seconds: RoundSeconds
    parked: bool
    predictions: tuple[JudgedPrediction, ...] = ()
    plain: float | None = None
    reading: float = 0.0

    @property
    def is_forced(self) -> bool:
        """It drew nothing: its one token was given. No figure counts it."""
        return any(emitted.forced for emitted in self.emitted)

    def to_json(self) -> dict[str, Any]:
        """The fixed trace line of `forerun generate --trace`; ensembles add their predictions."""
        predictions = [asdict(prediction) for prediction in self.predictions]
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
            "emitted": [emitted.to_json() for emitted in self.emitted],
            "seconds": {
                "draft": self.seconds.draft,
                "target": self.seconds.target,
                "other": self.seconds.other,
            },
            "parked": self.parked,
            **({"ballots": predictions} if predictions else {}),
        }
