"""Counters of a reply and the metrics made of them: one definition, used everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any, TypeVar

from engine.data.rounds import RoundTrace


@dataclass(frozen=True, slots=True)
class DrafterCount:
    """Tokens one drafter proposed and how many of them the target accepted."""

    proposed: int
    accepted: int

    def __add__(self, other: DrafterCount) -> DrafterCount:
        return DrafterCount(self.proposed + other.proposed, self.accepted + other.accepted)


@dataclass(frozen=True, slots=True)
class MemberCount:
    """What one member of an ensemble would have proposed, used or not.

    asked: places of the reply where it had a token. agreed: expected number of those that the
    target would have kept. agreed / asked compares with the ensemble's accepted / reached.
    """

    asked: int
    agreed: float

    def __add__(self, other: MemberCount) -> MemberCount:
        return MemberCount(self.asked + other.asked, self.agreed + other.agreed)


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of one reply. Times in seconds; *_by_position is indexed by depth - 1.

    proposed counts verified proposal tokens; in a tree, every depth tried counts once. reached
    counts only the depths up to the first rejection, where a token had a chance to be kept.
    members: of an ensemble.
    """

    emitted: int = 0
    rounds: int = 0
    parked_rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    proposed_by_position: tuple[int, ...] = ()
    accepted_by_position: tuple[int, ...] = ()
    by_drafter: Mapping[str, DrafterCount] = field(default_factory=dict)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    target_seconds: float = 0.0
    draft_seconds: float = 0.0
    overhead_seconds: float = 0.0
    reached: int = 0
    members: Mapping[str, MemberCount] = field(default_factory=dict)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Stats:
        """Of its own JSON: the rates are made anew. KeyError or TypeError where that is damaged."""
        drafters, members = kept["by_drafter"], kept.get("members", {})
        return cls(
            **{name: kept[name] for name in _COUNTED},
            proposed_by_position=tuple(kept["proposed_by_position"]),
            accepted_by_position=tuple(kept["accepted_by_position"]),
            by_drafter={name: DrafterCount(**count) for name, count in drafters.items()},
            reached=kept.get("reached", 0),
            members={name: MemberCount(**count) for name, count in members.items()},
        )

    def __add__(self, other: Stats) -> Stats:
        """Of a reply in two parts."""
        return Stats(
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTED},
            proposed_by_position=_sums(self.proposed_by_position, other.proposed_by_position),
            accepted_by_position=_sums(self.accepted_by_position, other.accepted_by_position),
            by_drafter=_joined(self.by_drafter, other.by_drafter),
            reached=self.reached + other.reached,
            members=_joined(self.members, other.members),
        )

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / verified proposal tokens (tree: accepted / depth tried); None if none."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def mean_accepted_length(self) -> float | None:
        """tau: emitted / rounds, the correction or bonus token included."""
        return self.emitted / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Emitted tokens over decode time (prefill apart)."""
        return self.emitted / self.decode_seconds if self.decode_seconds > 0 else None

    def to_json(self) -> dict[str, Any]:
        """The fixed `stats` object of the commands' JSON; ensembles add their members."""
        members = {name: asdict(count) for name, count in self.members.items()}
        return {
            "emitted": self.emitted,
            "rounds": self.rounds,
            "parked_rounds": self.parked_rounds,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "acceptance_rate": self.acceptance_rate,
            "mean_accepted_length": self.mean_accepted_length,
            "proposed_by_position": list(self.proposed_by_position),
            "accepted_by_position": list(self.accepted_by_position),
            "by_drafter": {name: asdict(count) for name, count in self.by_drafter.items()},
            "prefill_seconds": self.prefill_seconds,
            "decode_seconds": self.decode_seconds,
            "target_seconds": self.target_seconds,
            "draft_seconds": self.draft_seconds,
            "overhead_seconds": self.overhead_seconds,
            "tokens_per_second": self.tokens_per_second,
            **({"reached": self.reached, "members": members} if members else {}),
        }


_COUNTED = (
    *("emitted", "rounds", "parked_rounds", "proposed", "accepted", "prefill_seconds"),
    *("decode_seconds", "target_seconds", "draft_seconds", "overhead_seconds"),
)
Count = TypeVar("Count", DrafterCount, MemberCount)


def _sums(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip_longest(first, second, fillvalue=0))


def _joined(first: Mapping[str, Count], second: Mapping[str, Count]) -> dict[str, Count]:
    both = {name: first[name] + second[name] for name in first if name in second}
    return {**first, **second, **both}


class StatsCounter:
    """Adds up round traces; `snapshot` may be taken at any time (the live figures use it)."""

    def __init__(self, prefill_seconds: float = 0.0) -> None:
        self._prefill_seconds = prefill_seconds
        self._emitted = self._rounds = self._parked = self._reached = 0
        self._proposed: list[int] = []
        self._accepted: list[int] = []
        self._by_drafter: dict[str, list[int]] = {}
        self._members: dict[str, tuple[int, float]] = {}
        self._draft = self._target = self._other = 0.0

    def add(self, trace: RoundTrace) -> None:
        """A forced token is no sample, and its round in no figure."""
        if trace.is_forced:
            return
        self._rounds += 1
        self._parked += trace.parked
        self._emitted += len(trace.emitted)
        self._draft += trace.seconds.draft
        self._target += trace.seconds.target
        self._other += trace.seconds.other
        depths_tried = {node.depth for node in trace.proposed}
        depths_accepted = {node.depth for node in trace.proposed if node.accepted}
        self._reached += len(depths_accepted) + (len(depths_tried) > len(depths_accepted))
        self._extend(max(depths_tried, default=0))
        for depth in depths_tried:
            self._proposed[depth - 1] += 1
        for depth in depths_accepted:
            self._accepted[depth - 1] += 1
        for node in trace.proposed:
            counts = self._by_drafter.setdefault(node.drafter, [0, 0])
            counts[0] += 1
            counts[1] += node.accepted
        for prediction in trace.predictions:
            if prediction.on_path:
                asked, agreed = self._members.get(prediction.drafter, (0, 0.0))
                self._members[prediction.drafter] = (asked + 1, agreed + prediction.agreement)

    def _extend(self, depth: int) -> None:
        missing = depth - len(self._proposed)
        self._proposed.extend([0] * missing)
        self._accepted.extend([0] * missing)

    def snapshot(self) -> Stats:
        return Stats(
            emitted=self._emitted,
            rounds=self._rounds,
            parked_rounds=self._parked,
            proposed=sum(self._proposed),
            accepted=sum(self._accepted),
            proposed_by_position=tuple(self._proposed),
            accepted_by_position=tuple(self._accepted),
            by_drafter={
                name: DrafterCount(proposed, accepted)
                for name, (proposed, accepted) in self._by_drafter.items()
            },
            prefill_seconds=self._prefill_seconds,
            decode_seconds=self._draft + self._target + self._other,
            target_seconds=self._target,
            draft_seconds=self._draft,
            overhead_seconds=self._other,
            reached=self._reached,
            members={
                name: MemberCount(asked, agreed) for name, (asked, agreed) in self._members.items()
            },
        )
