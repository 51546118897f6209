"""Copies what followed the longest recent match of the chat's last tokens.

Model-free, a point mass per token. Prompt lookup (Saxena 2023) with the longest, most recent
match and a measured chance that the copy goes on (cf. SuffixDecoding, arXiv 2411.04975).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.suffix_index import SuffixIndex
from engine.proposal import EMPTY_PROPOSAL, Proposal

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
        self._match_length = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._index.follow(prompt)

    def propose(self, round_: DraftRound) -> Proposal:
        self._index.extend(round_.context)
        match = self._index.longest_match()
        if match is None or not round_.policy.may_start(self.name):
            return EMPTY_PROPOSAL
        self._match_length = match.length
        copied = self._index.tokens[match.end :]
        tokens: list[int] = []
        for depth in range(1, round_.max_depth + 1):
            chance = self._confidence.estimate(match.length + depth - 1)
            if not round_.policy.should_continue(self.name, depth, chance):
                break
            # A match that overlaps the end repeats with the period of its distance.
            tokens.append(copied[(depth - 1) % len(copied)])
        return Proposal.chain(tokens, self.name)

    def observe(self, observation: Observation) -> None:
        accepted = len(observation.accepted_path)
        own = [name for name in observation.proposal.drafters if name == self.name]
        for depth in range(min(accepted + 1, len(own))):
            self._confidence.learn(self._match_length + depth, kept=depth < accepted)

    def close(self) -> None:
        self._index = SuffixIndex(MINIMUM_MATCH)
