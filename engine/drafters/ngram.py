"""Copies what followed the longest recent match of the chat's last tokens.

Model-free, a point mass per token. Prompt lookup (Saxena 2023) with the longest, most recent
match and a measured chance that the copy goes on (cf. SuffixDecoding, arXiv 2411.04975).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.distribution import Distribution
from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.stepping import draft_chain
from engine.drafters.suffix_index import SuffixIndex
from engine.proposal import Ballot, Proposal

MINIMUM_MATCH = 3
"""Shorter matches say little about what follows: the drafter abstains."""

_BUCKET_STARTS = (3, 4, 6, 9, 17)
_PRIOR_WEIGHT = 4.0


class CopyConfidence:
    """Chance that the next copied token is kept, learned per length of the match behind it."""

    def __init__(self) -> None:
        # Priors: a match of n tokens goes on with about n / (n + 2).
        self._kept = [_PRIOR_WEIGHT * start / (start + 2.0) for start in _BUCKET_STARTS]
        self._tried = [_PRIOR_WEIGHT] * len(_BUCKET_STARTS)

    def estimate(self, match_length: int) -> float:
        bucket = self._bucket(match_length)
        return self._kept[bucket] / self._tried[bucket]

    def learn(self, match_length: int, kept: bool) -> None:
        bucket = self._bucket(match_length)
        self._tried[bucket] += 1.0
        self._kept[bucket] += kept

    @staticmethod
    def _bucket(match_length: int) -> int:
        return sum(match_length >= start for start in _BUCKET_STARTS[1:])


class NgramDrafter:
    """One index per chat, rebuilt when the chat is not a continuation of what it holds."""

    name = "ngram"
    description = "copies what followed the same words earlier in this chat"
    memory_bytes = 0
    needs: TargetNeeds = "nothing"
    max_leaves = 1

    def __init__(self) -> None:
        self._index = SuffixIndex(MINIMUM_MATCH)
        self._confidence = CopyConfidence()
        self._copied: list[int] = []  # what followed the match
        self._match_length = 0
        self._tried: list[int] = []  # tokens this draft would have copied, used or not
        self._follows = False  # the draft went on with all of them so far

    def begin(self, prompt: Sequence[int]) -> None:
        self._index.follow(prompt)
        self._tried = []

    def propose(self, round_: DraftRound) -> Proposal:
        return draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        """Learns once from each draft, whether its tokens were used or another drafter's."""
        for depth, (tried, emitted) in enumerate(
            zip(self._tried, observation.emitted, strict=False)
        ):
            self._confidence.learn(self._match_length + depth, kept=tried == emitted)
            if tried != emitted:
                break
        self._tried = []

    def close(self) -> None:
        self._index = SuffixIndex(MINIMUM_MATCH)

    # Step by step

    def start(self, round_: DraftRound) -> bool:
        self._index.extend(round_.context)
        self._tried = []
        match = self._index.longest_match()
        self._follows = match is not None
        if match is not None:
            self._copied = self._index.tokens[match.end :]
            self._match_length = match.length
        return self._follows

    def peek(self) -> float | None:
        if not self._follows:
            return None
        return self._confidence.estimate(self._match_length + len(self._tried))

    def distribution(self) -> Distribution:
        return Distribution.point_mass(self._next_token)

    def advance(self, token: int) -> None:
        if self._follows:
            copied = self._next_token
            self._follows = copied == token
            self._tried.append(copied)

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        chance = self.peek()
        return () if chance is None else ((self._next_token, chance),)[:count]

    def ballots(self) -> Sequence[Ballot]:
        return ()

    @property
    def _next_token(self) -> int:
        # A match that overlaps the end repeats with the period of its distance.
        return self._copied[len(self._tried) % len(self._copied)]
