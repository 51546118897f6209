"""Token recycling (Luo et al. 2024, arXiv 2408.08696): drafts from what the target threw away.

Every verified row ranks the whole vocabulary, and only one token of it is used. The likeliest
ones are kept as the successors of the row's token, and chained into the next drafts. The table
outlives replies and chats: it is about words, not about a text.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.control.acceptance_estimator import AcceptanceEstimator
from engine.data.errors import BadOptionError
from engine.drafters.base import Drafter, DraftRound, Observation, TargetNeeds
from engine.drafters.expression import DrafterExpression
from engine.drafters.heads_argument import MAX_TREE
from engine.drafters.kind import DrafterKind, DrafterPlan, DrafterSettings, PlanContext
from engine.drafters.quoting import unquoted
from engine.drafters.stepping import draft_chain
from engine.drafters.trees.static_tree import Choice, leaf_count, static_choices
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, MemberPrediction, Proposal
from engine.maths.ranking import Ranking
from engine.skip.choice import is_count

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext

SUCCESSORS = 8
"""Kept of every token, as in the paper."""

DEEPEST_TREE = 6


class SuccessorTable:
    """Of every token, the likeliest tokens after it when the target last saw it.

    vocabulary: of the target, in tokens.
    """

    def __init__(self, vocabulary: int) -> None:
        self._ids = np.full((vocabulary, SUCCESSORS), -1, np.int32)
        self._probabilities = np.zeros((vocabulary, SUCCESSORS), np.float32)

    @property
    def bytes(self) -> int:
        return self._ids.nbytes + self._probabilities.nbytes

    def learn(self, ranking: Ranking) -> None:
        count = min(SUCCESSORS, len(ranking.ids))
        self._ids[ranking.token, :count] = ranking.ids[:count]
        self._probabilities[ranking.token, :count] = ranking.probabilities[:count]

    def after(self, token: int) -> list[tuple[int, float]]:
        """Successors with probabilities, the likeliest first; empty if the token was not seen."""
        ids, probabilities = self._ids[token], self._probabilities[token]
        return [(int(i), float(p)) for i, p in zip(ids, probabilities, strict=True) if i >= 0]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node of the static tree. path_probability: that the text takes the whole path down to it.
    probability: the target's for the token when it last ranked it. parent: in the proposal.
    """

    path_probability: float
    probability: float
    choice: Choice
    token: int
    parent: int


class RecycleDrafter:
    """choices: shape of a tree, parents first; none for a chain of the likeliest successors.

    Point masses, so every rule stays exact whatever the table holds.
    """

    needs: TargetNeeds = "nothing"

    def __init__(self, name: str, vocabulary: int, choices: Sequence[Choice] = ()) -> None:
        self.name = name
        self._table = SuccessorTable(vocabulary)
        self._choices = frozenset(choices)
        self._estimator = AcceptanceEstimator()
        self._probabilities: list[float] = []  # of every node proposed
        self._last = 0
        self.memory_bytes = self._table.bytes
        self.max_leaves = leaf_count(tuple(choices)) if choices else 1
        shape = f"in a tree of {len(choices)}" if choices else "one after another"
        self.description = f"what the target last found likely after each token, {shape}"

    def begin(self, prompt: Sequence[int]) -> None:
        self._probabilities = []

    def propose(self, round_: DraftRound) -> Proposal:
        self._probabilities = []
        return self._tree(round_) if self._choices else draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        self._learn_acceptance(observation)
        for ranking in observation.rankings:
            self._table.learn(ranking)

    def _learn_acceptance(self, observation: Observation) -> None:
        """From every node whose parent the text went through, if the proposal was this one's."""
        proposal = observation.proposal
        own = len(proposal) == len(self._probabilities) and set(proposal.drafters) == {self.name}
        if own:
            path = {ROOT, *observation.accepted_path}
            for node, probability in enumerate(self._probabilities):
                if proposal.parents[node] in path:
                    self._estimator.learn(probability, kept=node in path)
        self._probabilities = []

    def close(self) -> None:
        self._table = SuccessorTable(0)
        self.memory_bytes = 0

    # Step by step

    def start(self, round_: DraftRound) -> bool:
        self._probabilities = []
        self._last = round_.context[-1]
        return bool(self._table.after(self._last))

    def peek(self) -> float | None:
        after = self._table.after(self._last)
        return self._estimator.estimate(after[0][1]) if after else None

    def distribution(self) -> Distribution:
        return Distribution.point_mass(self._table.after(self._last)[0][0])

    def advance(self, token: int) -> None:
        after = self._table.after(self._last)
        if after:
            self._probabilities.append(after[0][1])
        self._last = token

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        after = self._table.after(self._last)[:count]
        return [(token, self._estimator.estimate(probability)) for token, probability in after]

    def predictions(self) -> Sequence[MemberPrediction]:
        return ()

    # A tree of fixed shape, as far as it pays

    def _tree(self, round_: DraftRound) -> Proposal:
        """The likeliest chain first, then the other nodes of the tree, the likeliest first."""
        if not self._table.after(round_.context[-1]) or not round_.policy.may_start():
            return EMPTY_PROPOSAL
        chosen: list[_Candidate] = []
        waiting: list[tuple[float, Choice, _Candidate]] = []
        self._push_children(waiting, (), round_.context[-1], 1.0, ROOT)
        trunk: Choice = (0,)
        while trunk in self._choices and len(trunk) <= round_.max_depth:
            index = next((i for i, one in enumerate(waiting) if one[1] == trunk), None)
            if index is None or len(chosen) == round_.max_nodes:
                break
            candidate = waiting[index][2]
            confidence = self._estimator.estimate(candidate.probability)
            if not round_.policy.should_continue(len(trunk), confidence):
                break
            del waiting[index]
            self._choose(candidate, chosen, waiting)
            trunk = (*trunk, 0)
        if chosen:
            self._widen(round_, chosen, waiting)
        self._probabilities = [candidate.probability for candidate in chosen]
        return Proposal(
            tuple(candidate.token for candidate in chosen),
            tuple(candidate.parent for candidate in chosen),
            (self.name,) * len(chosen),
            (None,) * len(chosen),
        )

    def _widen(
        self,
        round_: DraftRound,
        chosen: list[_Candidate],
        waiting: list[tuple[float, Choice, _Candidate]],
    ) -> None:
        heapq.heapify(waiting)
        while waiting and len(chosen) < round_.max_nodes:
            candidate = heapq.heappop(waiting)[2]
            if len(candidate.choice) > round_.max_depth:
                continue
            if not round_.policy.pays_to_add(candidate.path_probability, 1 + len(chosen)):
                return
            self._choose(candidate, chosen, waiting)
            heapq.heapify(waiting)

    def _choose(
        self,
        candidate: _Candidate,
        chosen: list[_Candidate],
        waiting: list[tuple[float, Choice, _Candidate]],
    ) -> None:
        chosen.append(candidate)
        node = len(chosen) - 1
        self._push_children(
            waiting, candidate.choice, candidate.token, candidate.path_probability, node
        )

    def _push_children(
        self,
        waiting: list[tuple[float, Choice, _Candidate]],
        choice: Choice,
        token: int,
        path_probability: float,
        node: int,
    ) -> None:
        for rank, (successor, probability) in enumerate(self._table.after(token)):
            child = (*choice, rank)
            if child in self._choices:
                below = path_probability * self._estimator.estimate(probability)
                waiting.append(
                    (-below, child, _Candidate(below, probability, child, successor, node))
                )


class Recycle(DrafterKind):
    name = "recycle"
    usage = "recycle[:tree=24]"
    label = "Token recycling"
    description = "Chains what the target last found likely after each token. A few megabytes"
    tuning = ("tree",)
    needs_no_file = True
    remembers = True

    def normal(self, written: str) -> str:
        argument = unquoted(written)
        parse_tree(argument)
        return argument

    def untuned(self, expression: DrafterExpression) -> tuple[DrafterExpression, DrafterSettings]:
        settings = DrafterSettings(tree=parse_tree(expression.argument))
        return DrafterExpression(self.name), settings

    def tuned(self, expression: DrafterExpression, settings: DrafterSettings) -> DrafterExpression:
        if settings.layers:
            raise BadOptionError(f"{self.name} has no layers to set")
        argument = f"tree={settings.tree}" if settings.tree else ""
        return replace(expression, argument=self.normal(argument))

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        nodes = parse_tree(expression.argument)

        def open_(build: BuildContext) -> Drafter:
            choices = static_choices(nodes, DEEPEST_TREE) if nodes else ()
            build.capture.want_ranked(SUCCESSORS)
            return RecycleDrafter(str(expression), build.target.vocab.size, choices)

        return DrafterPlan(expression, open_, may_branch=nodes > 0)


def parse_tree(argument: str) -> int:
    """ "tree=24" to 24 nodes; "" to 0, a chain."""
    name, _, nodes = argument.partition("=")
    good = name == "tree" and is_count(nodes) and 1 <= int(nodes) <= MAX_TREE
    if argument and not good:
        raise BadOptionError(f"recycle:{argument} is not recycle:tree=N with N of 1 to {MAX_TREE}")
    return int(nodes) if argument else 0
