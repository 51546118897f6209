"""A member that fails leaves its group for the reply; the others go on, the text stays the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from engine.control.controller import AlwaysDraft
from engine.data.errors import DrafterError
from engine.data.events import Notice
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.decode.loop import DraftSetup, RoundLoop, Streams
from engine.drafters.base import Drafter, DraftRound, Observation, StepDrafter
from engine.drafters.ensembles.best import BestDrafter
from engine.drafters.ensembles.first import FirstDrafter
from engine.drafters.ensembles.mixture import MixtureDrafter
from engine.drafters.ensembles.tree import TreeDrafter
from engine.drafters.ensembles.union import UnionDrafter
from engine.drafters.ensembles.vote import VoteDrafter
from engine.maths.randomness import IndependentStream
from tests.engine.scripted import ToyTarget, ToyVocabulary, greedy_text, toy_logits
from tests.engine.steppers import ToyStepper
from tests.engine.toys import random_toy

PROMPT = [3, 1, 4, 1, 5]
TOKENS = 24
VOCABULARY = 12
WHERE = ("begin", "start", "peek", "advance", "observe")
GROUPS: dict[str, Callable[[Sequence[StepDrafter]], Drafter]] = {
    "first": FirstDrafter,
    "best": BestDrafter,
    "vote": VoteDrafter,
    "mixture": MixtureDrafter,
    "union": UnionDrafter,
    "tree of a vote": lambda members: TreeDrafter(VoteDrafter(members)),
}


class FailingStepper(ToyStepper):
    """Fails in the method `where`, from its call number `after` of a reply on."""

    def __init__(self, name: str, where: str, after: int = 2) -> None:
        super().__init__(name, random_toy(5, VOCABULARY))
        self.begun = 0
        self._where, self._after, self._calls = where, after, 0

    def _call(self, method: str) -> None:
        if method == self._where:
            self._calls += 1
            if self._calls >= (1 if method == "begin" else self._after):
                raise DrafterError("scripted failure")

    def begin(self, prompt: Sequence[int]) -> None:
        self.begun += 1
        self._calls = 0
        self._call("begin")
        super().begin(prompt)

    def start(self, round_: DraftRound) -> bool:
        self._call("start")
        return super().start(round_)

    def peek(self) -> float | None:
        self._call("peek")
        return super().peek()

    def advance(self, token: int) -> None:
        self._call("advance")
        super().advance(token)

    def observe(self, observation: Observation) -> None:
        self._call("observe")
        super().observe(observation)


def reply(drafter: Drafter, temperature: float = 0.0) -> tuple[list[RoundTrace], list[str]]:
    """Rounds and notices of one reply on the toy target."""
    loop = RoundLoop(
        ToyTarget(tokens=PROMPT[:-1]),
        DraftSetup(drafter, AlwaysDraft(3), 65),
        GenerateRequest(
            raw_prompt="x",
            max_tokens=TOKENS,
            sampling=SamplingParams(temperature=temperature),
            drafting=DraftParams("always", 3),
        ),
        Streams(IndependentStream(1, "target"), IndependentStream(1, "draft")),
    )
    drafter.begin(PROMPT)
    events = list(loop.run(list(PROMPT), ToyVocabulary(), lambda: False))
    rounds = [event for event in events if isinstance(event, RoundTrace)]
    return rounds, [event.message for event in events if isinstance(event, Notice)]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("group", GROUPS)
def test_the_others_go_on(group: str, where: str) -> None:
    weak, sound = FailingStepper("weak", where), ToyStepper("sound", random_toy(6, VOCABULARY))
    drafter = GROUPS[group]([weak, sound])
    for number in (1, 2):
        rounds, notices = reply(drafter)
        tokens = [emitted.token for trace in rounds for emitted in trace.emitted]
        assert tokens == greedy_text(toy_logits, PROMPT, TOKENS)
        assert len(notices) == 1 and "weak failed" in notices[0] and "this reply" in notices[0]
        assert all(trace.proposed for trace in rounds[:-1])
        assert weak.begun == number  # tried again in the next reply
    drafter.close()
    assert weak.closed == sound.closed == 1


@pytest.mark.parametrize("group", GROUPS)
def test_a_sampled_reply_goes_on_too(group: str) -> None:
    members = [FailingStepper("weak", "peek", 5), ToyStepper("sound", random_toy(6, VOCABULARY))]
    rounds, notices = reply(GROUPS[group](members), temperature=1.0)
    assert sum(len(trace.emitted) for trace in rounds) == TOKENS
    assert len(notices) == 1 and all(trace.proposed for trace in rounds[:-1])


@pytest.mark.parametrize("group", GROUPS)
def test_without_members_the_reply_is_plain(group: str) -> None:
    drafter = GROUPS[group]([FailingStepper("a", "start"), FailingStepper("b", "start", 3)])
    rounds, notices = reply(drafter)
    tokens = [emitted.token for trace in rounds for emitted in trace.emitted]
    assert tokens == greedy_text(toy_logits, PROMPT, TOKENS)
    assert "a failed and left" in notices[0]
    assert drafter.name in notices[-1] and "all its members failed" in notices[-1]
    assert not rounds[-2].proposed
