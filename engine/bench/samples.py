"""What is measured: a mode, its reply to one prompt, and the sample that is kept of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.control.oracle import OracleReport
from engine.control.speedup import most_speedup
from engine.data.events import Finished
from engine.data.prompts import TrialPrompt
from engine.data.rounds import RoundTrace
from engine.data.stats import DrafterCount, MemberCount, Stats

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class BenchReply:
    """rounds: empty where the mode does not tell them. memory_bytes: resident, afterwards."""

    finished: Finished
    rounds: tuple[RoundTrace, ...] = ()
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BenchMode:
    """name: as shown. reply: produces one reply to a prompt, with everything prefilled anew.

    gap: distance in logits of the two likeliest tokens after a prompt and a continuation; only
    plain's is asked. is_peer: another program.
    drafter: the expression it drafts with, None for plain and for other programs. decides: how far
    to draft in each round, up to draft_max; such a mode is compared with its oracle.
    predict: the speed-up to expect, from short replies to some prompts; None when too few tokens
    came of them, or for a mode that has no such record.
    """

    name: str
    reply: Callable[[TrialPrompt], BenchReply]
    gap: Callable[[TrialPrompt, tuple[int, ...]], float] | None = None
    is_peer: bool = False
    drafter: str | None = None
    decides: bool = False
    draft_max: int = 0
    predict: Callable[[Sequence[TrialPrompt]], float | None] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """First token unlike plain's. gap: in logits, of plain's two likeliest tokens there."""

    position: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class BenchSample:
    """One reply. plain_seconds_per_token: of plain decoding on the same prompt, the mean (of the
    logarithms) of plain_measured: before the other modes and after them.

    same_text: equal to plain's; None for plain itself and for sampled text. passes: rows and
    seconds of every target pass, as they were in the rounds. oracle: what the best schedule would
    have reached on this text, for greedy chains of a mode that decides. predicted: the mode's
    speed-up on all prompts, as expected before the first one.
    """

    mode: str
    prompt: str
    category: str
    stats: Stats
    prompt_tokens: int
    plain_seconds_per_token: float
    same_text: bool | None = None
    difference: Difference | None = None
    memory_bytes: int | None = None
    passes: tuple[tuple[int, float], ...] = ()
    is_peer: bool = False
    oracle: OracleReport | None = None
    predicted: float | None = None
    plain_measured: tuple[float, ...] = ()

    @property
    def seconds_per_token(self) -> float:
        if self.mode == PLAIN:
            return self.plain_seconds_per_token
        return seconds_per_token(self.stats)

    @property
    def has_speed(self) -> bool:
        """A reply without a token, or without time, has none."""
        times = (self.plain_seconds_per_token, self.seconds_per_token)
        return self.stats.emitted > 0 and min(times) > 0.0

    @property
    def measured_speedup(self) -> float:
        """By the clock alone, whatever it says."""
        return self.plain_seconds_per_token / self.seconds_per_token if self.has_speed else 0.0

    def most_speedup(self, ratios: Mapping[int, float] | None = None) -> float | None:
        """The bound, with pass_ratios of engine.control.speedup if they are known. None for another
        program: its passes are not those of our plain decoding."""
        if self.is_peer:
            return None
        widths = [rows for rows, _ in self.passes]
        return most_speedup(self.stats.emitted, self.stats.rounds, widths, ratios)

    @property
    def speedup(self) -> float:
        """What the clock says, within what the tokens a round allow."""
        most = self.most_speedup()
        return self.measured_speedup if most is None else min(self.measured_speedup, most)

    def to_json(self) -> dict[str, Any]:
        """`sample_from_json` makes the same sample of it, for all figures of a bench."""
        difference = None if self.difference is None else asdict(self.difference)
        return {
            "mode": self.mode,
            "category": self.category,
            "prompt": self.prompt,
            "prompt_tokens": self.prompt_tokens,
            "plain_seconds_per_token": self.plain_seconds_per_token,
            "plain_measured": list(self.plain_measured),
            "speedup": self.speedup,
            "measured_speedup": self.measured_speedup,
            "same_text": self.same_text,
            "difference": difference,
            "memory_bytes": self.memory_bytes,
            "passes": [list(one) for one in self.passes],
            "is_peer": self.is_peer,
            "oracle": None if self.oracle is None else asdict(self.oracle),
            "predicted": self.predicted,
            "stats": self.stats.to_json(),
        }


def seconds_per_token(stats: Stats) -> float:
    """Decode time, prefill apart."""
    return stats.decode_seconds / max(1, stats.emitted)


def passed(trace: RoundTrace) -> tuple[int, float]:
    """Rows and seconds of a round's pass."""
    return 1 + len(trace.proposed), round(trace.seconds.target, 6)


def between(before: float, after: float) -> float:
    """Seconds a token of plain decoding while something else ran between two replies of its own."""
    return math.sqrt(before * after)


def sample_from_json(data: Mapping[str, Any]) -> BenchSample:
    """Raises KeyError, TypeError or ValueError when it is not a sample."""
    found = data["difference"]
    return BenchSample(
        mode=str(data["mode"]),
        prompt=str(data["prompt"]),
        category=str(data["category"]),
        stats=_stats_from_json(data["stats"]),
        prompt_tokens=int(data["prompt_tokens"]),
        plain_seconds_per_token=float(data["plain_seconds_per_token"]),
        same_text=data["same_text"],
        difference=None if found is None else Difference(found["position"], found["gap"]),
        memory_bytes=data["memory_bytes"],
        passes=tuple((int(rows), float(seconds)) for rows, seconds in data["passes"]),
        is_peer=bool(data["is_peer"]),
        oracle=_oracle_from_json(data["oracle"]),
        predicted=data.get("predicted"),
        plain_measured=tuple(float(one) for one in data.get("plain_measured", ())),
    )


def _oracle_from_json(data: Mapping[str, Any] | None) -> OracleReport | None:
    if data is None:
        return None
    return OracleReport(
        tokens=data["tokens"],
        known=data["known"],
        plain_seconds=data["plain_seconds"],
        taken_seconds=data["taken_seconds"],
        rejected_seconds=data["rejected_seconds"],
        vain_seconds=data["vain_seconds"],
        best_seconds=data["best_seconds"],
        fixed_seconds=data["fixed_seconds"],
        fixed_length=data["fixed_length"],
    )


def _stats_from_json(data: Mapping[str, Any]) -> Stats:
    return Stats(
        emitted=data["emitted"],
        rounds=data["rounds"],
        parked_rounds=data["parked_rounds"],
        proposed=data["proposed"],
        accepted=data["accepted"],
        proposed_by_position=tuple(data["proposed_by_position"]),
        accepted_by_position=tuple(data["accepted_by_position"]),
        by_drafter={
            name: DrafterCount(one["proposed"], one["accepted"])
            for name, one in data["by_drafter"].items()
        },
        prefill_seconds=data["prefill_seconds"],
        decode_seconds=data["decode_seconds"],
        target_seconds=data["target_seconds"],
        draft_seconds=data["draft_seconds"],
        overhead_seconds=data["overhead_seconds"],
        reached=data.get("reached", 0),
        members={
            name: MemberCount(one["asked"], one["agreed"])
            for name, one in data.get("members", {}).items()
        },
    )
