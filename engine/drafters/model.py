"""A draft model with the target's tokenizer (Leviathan et al. 2023, arXiv 2211.17192)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.distribution import Distribution
from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.errors import DrafterError
from engine.llama.context import PREFILL_CHUNK, Context
from engine.proposal import EMPTY_PROPOSAL, Proposal
from engine.sampling import confidence


class ModelDrafter:
    """Drafts a chain, one pass a token.

    draft_limit: token ids from here on exist in only one of the two vocabularies and are never
    drafted. on_close frees what the drafter owns besides the context.
    """

    needs: TargetNeeds = "nothing"
    max_leaves = 1

    def __init__(
        self,
        name: str,
        context: Context,
        draft_limit: int,
        memory_bytes: int,
        on_close: Callable[[], None],
    ) -> None:
        self.name = name
        self.description = context.model.description
        self.memory_bytes = memory_bytes
        self._context = context
        self._draft_limit = draft_limit
        self._on_close = on_close
        self._agreed = 0  # leading cached tokens known to be the reply's context

    def begin(self, prompt: Sequence[int]) -> None:
        self._check_known(prompt)
        self._context.reuse(prompt[:-1])
        self._feed(prompt[:-1])
        self._agreed = len(self._context.tokens)

    def propose(self, round_: DraftRound) -> Proposal:
        depth_limit = min(round_.max_depth, self._room(len(round_.context)))
        if depth_limit < 1 or not round_.policy.may_start(self.name):
            return EMPTY_PROPOSAL
        row = self._catch_up(round_.context)
        tokens: list[int] = []
        distributions: list[Distribution | None] = []
        for depth in range(1, depth_limit + 1):
            if not round_.policy.should_continue(self.name, depth, confidence(row)):
                break
            token, q = self._choose(round_, row, tokens)
            tokens.append(token)
            distributions.append(q)
            if depth == depth_limit or self._context.model.vocab.ends_generation(token):
                break
            row = self._row([token])
        return Proposal.chain(tokens, self.name, distributions)

    def observe(self, observation: Observation) -> None:
        """Nothing to do: catch_up drops what the target rejected before the next draft."""

    def close(self) -> None:
        self._context.close()
        self._on_close()

    def _room(self, context_length: int) -> int:
        """Draft tokens that still fit: the last one drawn is never cached."""
        return self._context.length_limit - context_length + 1

    def _catch_up(self, context: Sequence[int]) -> NDArray[np.float32]:
        """Makes the cache equal to the context; returns the logits after its last token."""
        cached = self._context.tokens
        end = min(len(cached), len(context) - 1)
        agreed = min(self._agreed, end)
        while agreed < end and cached[agreed] == context[agreed]:
            agreed += 1
        self._context.truncate(agreed)
        missing = context[agreed:]
        self._check_known(missing)
        if len(missing) > PREFILL_CHUNK:
            self._feed(context[:-1])
            missing = context[-1:]
        row = self._row(missing)
        self._agreed = len(context)
        return row

    def _check_known(self, tokens: Sequence[int]) -> None:
        if max(tokens) >= self._context.model.vocab.size:
            raise DrafterError("the text holds a token that the drafter's vocabulary lacks")

    def _feed(self, tokens: Sequence[int]) -> None:
        for start in range(len(self._context.tokens), len(tokens), PREFILL_CHUNK):
            self._context.feed(tokens[start : start + PREFILL_CHUNK])

    def _row(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Appends tokens; logits of the last one over the shared ids [draft_limit]."""
        return self._context.extend_to_last(tokens)[: self._draft_limit]

    def _choose(
        self, round_: DraftRound, row: NDArray[np.float32], drafted: Sequence[int]
    ) -> tuple[int, Distribution | None]:
        """A token and the distribution it was drawn from (None: chosen as the most likely)."""
        history = (*round_.sampler.recent(round_.context), *drafted)
        q = round_.sampler.distribution(row, history)
        if round_.mode == "argmax" or len(q.ids) == 1:
            return q.most_likely(), None
        position = len(round_.context) + len(drafted)
        return round_.stream.draw(q, position), q
