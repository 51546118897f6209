"""Ensembles on toy models, every random decision enumerated: the text keeps the target's law.

Members depend on the same prefix, agree and disagree, fall silent, and what was learned in one
round changes the next one.
"""

from __future__ import annotations

import pytest

from engine.data.request import DraftMode
from engine.drafters.base import DraftRound
from engine.drafters.ensembles.best import BestDrafter
from engine.drafters.ensembles.first import FirstDrafter
from engine.drafters.ensembles.mixture import MixtureDrafter
from engine.drafters.ensembles.tree import TreeDrafter
from engine.drafters.ensembles.union import UnionDrafter
from engine.drafters.ensembles.vote import VoteDrafter
from engine.maths.proposal import Proposal
from tests.engine.steppers import Make, Setting, ToyStepper, assert_law
from tests.engine.toys import random_toy

VOCABULARY = 3


def steppers(seed: int = 40) -> list[ToyStepper]:
    """Two that sample, one of them silent after two tokens, and a deterministic one."""
    return [
        ToyStepper("a", random_toy(seed, VOCABULARY)),
        ToyStepper("b", random_toy(seed + 1, VOCABULARY), silent_after=2),
        ToyStepper("c", random_toy(seed + 2, VOCABULARY), deterministic=True),
    ]


ENSEMBLES: dict[str, Make] = {
    "vote": lambda: VoteDrafter(steppers()),
    "mixture": lambda: MixtureDrafter(steppers()),
    "union": lambda: UnionDrafter(steppers()),
    "best": lambda: BestDrafter(steppers()),
    "first": lambda: FirstDrafter(steppers()[1:]),
    "union of a mixture": lambda: UnionDrafter([MixtureDrafter(steppers()[:2]), steppers()[2]]),
    "tree": lambda: TreeDrafter(steppers()[0]),
    "tree of a mixture": lambda: TreeDrafter(MixtureDrafter(steppers())),
    "tree of a vote": lambda: TreeDrafter(VoteDrafter(steppers())),
    "mixture of a vote": lambda: MixtureDrafter([VoteDrafter(steppers()[:2]), steppers()[2]]),
    "vote of a mixture": lambda: VoteDrafter([steppers()[2], MixtureDrafter(steppers()[:2])]),
}


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("mode", ["sampled", "argmax"])
def test_one_round_keeps_the_target_law(name: str, depth: int, mode: DraftMode) -> None:
    assert_law(random_toy(50, VOCABULARY), ENSEMBLES[name], 1, Setting(depth, mode=mode), depth + 1)


@pytest.mark.parametrize("name", ["vote", "mixture", "best", "union of a mixture"])
def test_a_deeper_round_keeps_the_target_law(name: str) -> None:
    assert_law(random_toy(52, VOCABULARY), ENSEMBLES[name], 1, Setting(3), 4)


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["union", "union of a mixture", "tree of a mixture"])
def test_a_tree_that_is_cut_to_size_keeps_the_target_law(name: str, max_nodes: int) -> None:
    setting = Setting(2, max_nodes=max_nodes)
    assert_law(random_toy(53, VOCABULARY), ENSEMBLES[name], 1, setting, 3)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_learning_between_rounds_keeps_the_target_law(name: str) -> None:
    assert_law(random_toy(51, VOCABULARY), ENSEMBLES[name], 2, Setting(1), 3)


@pytest.mark.parametrize("name", ["vote", "mixture", "union of a mixture"])
def test_sampling_the_target_alone_keeps_its_law(name: str) -> None:
    """What --coupling seed does with the same proposals."""
    setting = Setting(1, coupling="seed")
    assert_law(random_toy(51, VOCABULARY), ENSEMBLES[name], 2, setting, 3)


class LongestOfTheDrawn(UnionDrafter):
    """Looks at what was drawn and keeps the member with the higher token: the classic bias."""

    def propose(self, round_: DraftRound) -> Proposal:
        proposals = [member.propose(round_) for member in self.members]
        return max(proposals, key=lambda proposal: proposal.tokens[0])


def test_choosing_among_drawn_tokens_is_biased() -> None:
    """So the checks above can fail."""
    with pytest.raises(AssertionError):
        assert_law(
            random_toy(50, VOCABULARY), lambda: LongestOfTheDrawn(steppers()[:2]), 1, Setting(1), 2
        )
