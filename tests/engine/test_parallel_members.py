"""Members of a vote or a mixture that draft side by side: the same tokens, by measurement only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from engine.control.controller import AlwaysDraft
from engine.data.errors import DrafterError
from engine.data.request import SamplingParams
from engine.drafters.base import DraftRound
from engine.drafters.build_context import BuildContext
from engine.drafters.ensembles.ensemble import ChainEnsemble
from engine.drafters.ensembles.mixture import MixtureDrafter
from engine.drafters.ensembles.parallel import ParallelMembers
from engine.drafters.ensembles.vote import VoteDrafter
from engine.drafters.parse import parse_expression
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.proposal import Proposal
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from tests.engine.open_drafter import build_drafter
from tests.engine.steppers import ToyStepper
from tests.engine.tiny_replies import GREEDY, TinyReply
from tests.engine.toys import random_toy
from tests.tiny_gguf import write_tiny_gguf

VOCABULARY = 12
PROMPT = [72, 101, 108, 108, 111, 44, 32, 119]
SEEDED = SamplingParams(temperature=0.8, seed=4)
KINDS: dict[str, Callable[..., ChainEnsemble]] = {"vote": VoteDrafter, "mixture": MixtureDrafter}


class Stopped(Exception):  # noqa: N818 - not an error: a stop
    """As a pass that was told to stop ends."""


class LaneStepper(ToyStepper):
    """in_peek: what else happens in its third peek and later ones."""

    def __init__(self, name: str, seed: int, in_peek: Callable[[], None] = lambda: None) -> None:
        super().__init__(name, random_toy(seed, VOCABULARY))
        self.threads: list[int] = []
        self.peeked_in: list[str] = []
        self.rehearsed = 0
        self._in_peek = in_peek

    def peek(self) -> float | None:
        self.peeked_in.append(threading.current_thread().name)
        if len(self.peeked_in) >= 3:
            self._in_peek()
        return super().peek()

    def use_threads(self, threads: int) -> None:
        self.threads.append(threads)

    def rehearse(self) -> None:
        self.rehearsed += 1


def fail() -> None:
    raise DrafterError("scripted failure")


def stop() -> None:
    raise Stopped


def propose(drafter: ChainEnsemble, notices: list[str], temperature: float = 0.8) -> Proposal:
    return drafter.propose(
        DraftRound(
            context=[3, 1, 4, 1, 5],
            max_depth=5,
            sampler=Sampler(SamplingParams(temperature=temperature)),
            mode="sampled",
            stream=IndependentStream(5, "draft"),
            policy=AlwaysDraft(5),
            report=notices.append,
        )
    )


def said(proposal: Proposal) -> tuple[object, ...]:
    predictions = [
        (one.drafter, one.parent, one.token, one.confidence) for one in proposal.predictions
    ]
    laws = [None if q is None else q.probabilities.tolist() for q in proposal.distributions]
    return proposal.tokens, predictions, laws


def drafting_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("drafting")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_tokens_predictions_and_laws_are_those_of_members_in_turn(
    kind: str, temperature: float
) -> None:
    """A plain member among them runs as ever."""
    found = []
    for side_by_side in (False, True):
        first, plain, last = (
            LaneStepper("a", 1), ToyStepper("b", random_toy(2, 12)), LaneStepper("c", 3),
        )  # fmt: skip
        drafter = KINDS[kind]([first, plain, last], 3)
        drafter.parallel.side_by_side = side_by_side
        proposal = propose(drafter, [], temperature)
        assert len(proposal) == 5
        found.append(said(proposal))
        assert first.threads[-1] == (2 if side_by_side else 3)
        assert last.threads[-1] == (1 if side_by_side else 3)
        drafter.close()
        assert not drafting_threads()
    assert found[0] == found[1]


def test_members_are_at_work_at_the_same_time() -> None:
    barrier = threading.Barrier(2, timeout=60)

    def meet() -> None:
        barrier.wait()

    members = [LaneStepper("a", 1, meet), LaneStepper("b", 2, meet)]
    drafter = VoteDrafter(members, 2)
    drafter.parallel.side_by_side = True
    assert len(propose(drafter, [])) == 5
    drafter.close()


def test_a_member_that_fails_is_left_out_and_the_others_go_on() -> None:
    found = []
    for side_by_side in (False, True):
        members = [LaneStepper("a", 1), LaneStepper("b", 2, fail), LaneStepper("c", 3)]
        drafter = VoteDrafter(members, 2)
        drafter.parallel.side_by_side = side_by_side
        notices: list[str] = []
        found.append((said(propose(drafter, notices)), tuple(notices)))
        assert len(notices) == 1 and "b failed and left vote" in notices[0]
        drafter.close()
        drafter.close()
    assert found[0] == found[1]


def test_a_single_member_that_is_left_has_all_threads() -> None:
    members = [LaneStepper("a", 1), LaneStepper("b", 2, fail)]
    drafter = VoteDrafter(members, 2)
    drafter.parallel.side_by_side = True
    propose(drafter, [])
    assert members[0].threads[:3] == [1, 1, 1] and members[0].threads[-1] == 2
    assert members[0].peeked_in[-1] == "MainThread"
    drafter.close()


def test_a_stop_is_passed_on_when_no_member_runs_any_more() -> None:
    stopped, ended = threading.Event(), []

    def stop_first() -> None:
        stopped.set()
        raise Stopped

    def end_later() -> None:
        stopped.wait(60)
        ended.append(True)

    drafter = VoteDrafter([LaneStepper("a", 1, stop_first), LaneStepper("b", 2, end_later)], 2)
    drafter.parallel.side_by_side = True
    with pytest.raises(Stopped):
        propose(drafter, [])
    assert ended == [True]
    drafter.close()


# By measurement


class Clock:
    """Steps take these seconds, in turn and side by side; the first ones much longer."""

    def __init__(self, in_turn: float, together: float) -> None:
        self._times = self._ticks(in_turn, together)

    @staticmethod
    def _ticks(in_turn: float, together: float) -> Iterator[float]:
        now = 0.0
        for slowness in (9.0, 1.0, 2.0, 1.0, 1.0):
            for seconds in (in_turn, together):
                yield now
                now += slowness * seconds
                yield now

    def __call__(self) -> float:
        return next(self._times)


@pytest.mark.parametrize(
    ("in_turn", "together", "expected"),
    [(0.156, 0.119, True), (0.1, 0.12, False), (0.1, 0.098, False)],
)
def test_what_took_less_time_is_kept(in_turn: float, together: float, expected: bool) -> None:
    members = [LaneStepper("a", 1), LaneStepper("b", 2)]
    lanes = ParallelMembers(members, 2)
    lanes.measure(Clock(in_turn, together))
    assert lanes.side_by_side is expected
    assert (lanes.in_turn, lanes.together) == pytest.approx((in_turn, together))
    assert ("side by side (" if expected else "in turn (") in lanes.description
    assert members[0].rehearsed == members[1].rehearsed == 10
    lanes.close()


@pytest.mark.parametrize(
    ("members", "threads"),
    [
        ([LaneStepper("a", 1), LaneStepper("b", 2)], 1),
        ([LaneStepper("a", 1), ToyStepper("b", random_toy(2, 12))], 4),
    ],
    ids=["one thread", "one member that could"],
)
def test_without_a_choice_nothing_is_measured(members: Sequence[ToyStepper], threads: int) -> None:
    drafter = VoteDrafter(members, threads)
    assert drafter.draft_costs().keys() == {drafter.name}
    assert drafter.parallel.in_turn is None and not drafter.parallel.side_by_side
    assert drafter.description == drafter.purpose


# Models


class EnsembleBench:
    """A tiny target and an ensemble of two relatives of it, for two threads."""

    def __init__(self, library: Library, folder: Path, kind: str) -> None:
        self.abort = AbortFlag()
        path = write_tiny_gguf(folder / "target.gguf", layers=3)
        members = [
            write_tiny_gguf(folder / f"{seed}.gguf", layers=3, noise=0.2 * seed) for seed in (1, 2)
        ]
        self.model = Model(path, ModelOptions(), library.log)
        self.context = Context(self.model, ContextOptions(256, 33, 1), AbortFlag())
        expression = parse_expression(f"{kind}({','.join(f'model:{one}' for one in members)})")
        build = BuildContext(
            self.model, 256, 2, 0, self.abort, library.log, folder, lambda _a, _b: None
        )
        drafter = build_drafter(expression, build)
        assert isinstance(drafter, ChainEnsemble)
        self.drafter = drafter

    def close(self) -> None:
        self.drafter.close()
        self.context.close()
        self.model.close()


@pytest.fixture
def make(library: Library, tmp_path: Path) -> Iterator[Callable[[str], EnsembleBench]]:
    opened: list[EnsembleBench] = []

    def make(kind: str) -> EnsembleBench:
        opened.append(EnsembleBench(library, tmp_path, kind))
        return opened[-1]

    yield make
    for bench in opened:
        bench.close()


@pytest.mark.parametrize("kind", KINDS)
def test_replies_of_models_are_the_same(make: Callable[[str], EnsembleBench], kind: str) -> None:
    replies = []
    for side_by_side in (False, True):
        bench = make(kind)
        for sampling in (GREEDY, SEEDED):
            bench.drafter.parallel.side_by_side = side_by_side
            reply = TinyReply(bench.context, bench.drafter, PROMPT, 24, sampling)
            assert reply.notices == [] and reply.accepted > 0
            proposed = [[node.token for node in trace.proposed] for trace in reply.rounds]
            replies.append((reply.tokens, proposed))
        assert len(drafting_threads()) == (2 if side_by_side else 0)
    assert replies[:2] == replies[2:]


def test_models_are_measured_and_a_stop_reaches_all_of_them(
    make: Callable[[str], EnsembleBench],
) -> None:
    bench = make("vote")
    costs = bench.drafter.draft_costs()
    lanes = bench.drafter.parallel
    assert costs[bench.drafter.name].step > 0.0
    assert lanes.in_turn and lanes.together
    assert bench.drafter.description.startswith(f"{bench.drafter.purpose}; members ")
    lanes.side_by_side = True
    bench.abort.set()
    bench.drafter.begin(PROMPT)
    with pytest.raises(PassAborted):
        propose(bench.drafter, [])
    bench.abort.clear()
    assert len(propose(bench.drafter, [])) == 5
