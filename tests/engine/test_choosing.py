"""Which drafter a round goes to, and that one which is not wanted does no work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from engine.control.controller import AlwaysDraft
from engine.data.draft_policy import DraftPolicy
from engine.data.request import SamplingParams
from engine.drafters.base import DraftRound
from engine.drafters.ensembles.best import BestDrafter
from engine.drafters.ensembles.first import FirstDrafter
from engine.drafters.ensembles.vote import VoteDrafter
from engine.drafters.models.drafter import ModelDrafter, SameTokens
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from tests.engine.steppers import ToyStepper
from tests.engine.toys import Toy, constant_toy
from tests.tiny_gguf import write_tiny_gguf


class Saving(AlwaysDraft):
    """saved: seconds by drafter; where the confidence is known, in proportion to it.

    asked: the drafters that were about to start, in order, of all policies made of this one.
    """

    def __init__(
        self, saved: Mapping[str, float], drafter: str = "", asked: list[str] | None = None
    ) -> None:
        super().__init__(4)
        self.asked: list[str] = [] if asked is None else asked
        self._saved = saved
        self._drafter = drafter

    def of(self, drafter: str) -> Saving:
        return Saving(self._saved, drafter, self.asked)

    def expected_saving(self, confidence: float | None = None) -> float:
        return self._saved[self._drafter] * (1.0 if confidence is None else confidence)

    def may_start(self) -> bool:
        self.asked.append(self._drafter)
        return True


class Refusing(AlwaysDraft):
    """Lets no drafter take in text, and keeps how much each would have had to."""

    def __init__(self) -> None:
        super().__init__(4)
        self.asked: list[int] = []

    def may_catch_up(self, tokens: int) -> bool:
        self.asked.append(tokens)
        return False


def toy(share: float) -> Toy:
    return constant_toy(share, 1.0 - share)


def round_of(policy: DraftPolicy, context: Sequence[int] = (0, 1, 1)) -> DraftRound:
    stream = IndependentStream(5, "draft")
    return DraftRound(list(context), 3, Sampler(SamplingParams()), "argmax", stream, policy)


@pytest.mark.parametrize(("rival", "chosen"), [(0.5, "copy"), (0.95, "model")])
def test_evidence_gives_way_to_a_round_that_saves_more(rival: float, chosen: str) -> None:
    members = [ToyStepper("copy", toy(0.7)), ToyStepper("model", toy(0.6))]
    policy = Saving({"copy": 1.0, "model": rival})
    proposal = FirstDrafter(members).propose(round_of(policy))
    assert set(proposal.drafters) == {chosen}


def test_the_last_member_has_no_rivals() -> None:
    policy = Saving({"only": 0.0})
    assert len(FirstDrafter([ToyStepper("only", toy(0.6))]).propose(round_of(policy))) == 3


def test_the_best_member_is_the_one_that_saves_most() -> None:
    members = [ToyStepper("a", toy(0.7)), ToyStepper("b", toy(0.6))]
    policy = Saving({"a": 0.1, "b": 0.2})
    assert set(BestDrafter(members).propose(round_of(policy)).drafters) == {"b"}
    assert policy.asked == ["b"]


@pytest.fixture
def drafter(tmp_path: Path, library: Library) -> Iterator[ModelDrafter]:
    path = write_tiny_gguf(tmp_path / "drafter.gguf")
    model = Model(path, ModelOptions(), library.log)
    context = Context(model, ContextOptions(128, 1, threads=1), AbortFlag())
    size = model.vocab.size
    drafter = ModelDrafter("m", context, SameTokens(size, size), 0, model.close)
    yield drafter
    drafter.close()


def test_a_drafter_that_is_not_wanted_takes_in_nothing(drafter: ModelDrafter) -> None:
    prompt = list(range(20))
    policy = Refusing()
    drafter.begin(prompt)
    drafter.prepare(policy)
    assert len(drafter.propose(round_of(policy, prompt))) == 0
    assert policy.asked == [19, 19]
    drafter.prepare(AlwaysDraft(4))
    assert len(drafter.propose(round_of(policy, prompt))) == 0
    assert policy.asked[2:] == [0]


def test_it_catches_up_when_it_is_wanted_after_all(drafter: ModelDrafter) -> None:
    prompt = list(range(20))
    drafter.begin(prompt)
    drafter.prepare(AlwaysDraft(4))
    expected = drafter.propose(round_of(AlwaysDraft(4), prompt)).tokens
    drafter.begin([9, 9])
    drafter.prepare(Refusing())
    late = drafter.propose(round_of(AlwaysDraft(4), prompt)).tokens
    assert late == expected and len(late) > 0


def test_members_of_an_ensemble_are_asked_about_as_one(drafter: ModelDrafter) -> None:
    vote = VoteDrafter([drafter, ToyStepper("toy", toy(0.7))])
    policy = Refusing()
    vote.begin([1, 2, 3])
    vote.prepare(policy)
    assert policy.asked == [2]


def test_costs_of_groups(drafter: ModelDrafter) -> None:
    alone = drafter.draft_costs()
    assert set(alone) == {"m"} and alone["m"].step > 0.0 and alone["m"].token > 0.0
    copy = ToyStepper("toy", toy(0.7))
    assert set(FirstDrafter([copy, drafter]).draft_costs()) == {"m"}
    assert set(VoteDrafter([copy, drafter]).draft_costs()) == {"m", "vote(toy,m)"}
