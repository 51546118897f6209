"""--speculate auto on simulated machines: the time it needs against plain decoding."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from engine.auto_draft import AutoDraft
from engine.cost import CostModel
from engine.events import EmittedToken, ProposedToken, RoundSeconds, RoundTrace

PLAIN = 0.030
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass
class Machine:
    """pass_seconds: T(n). A drafter whose every token costs `step` seconds and is kept with
    chance `kept`, known to it as `confidence`."""

    pass_seconds: Callable[[int], float]
    step: float
    kept: float
    confidence: float


FLAT = Machine(lambda n: PLAIN * (1 + 0.02 * (n - 1)), 0.05 * PLAIN, 0.9, 0.9)
COMPUTE_BOUND = Machine(lambda n: PLAIN * n, 0.2 * PLAIN, 0.8, 0.8)
SLOW_DRAFTER = Machine(lambda n: PLAIN * (1 + 0.02 * (n - 1)), 1.2 * PLAIN, 0.8, 0.8)
UNSURE = Machine(lambda n: PLAIN * (1 + 0.6 * (n - 1)), 0.3 * PLAIN, 0.05, 0.05)


@dataclass
class Simulation:
    """Rounds of one drafter under the controller. seconds: all of them, drafting included."""

    auto: AutoDraft
    random: np.random.Generator
    seconds: float = 0.0
    emitted: int = 0
    traces: tuple[RoundTrace, ...] = ()

    def run(self, machine: Machine, rounds: int) -> Simulation:
        for _ in range(rounds):
            self.traces = (*self.traces, self._round(machine))
        return self

    def _round(self, machine: Machine) -> RoundTrace:
        limit = self.auto.start_round()
        drafted = steps = 0
        if limit > 0 and self.auto.may_start("model"):
            while drafted < limit:
                steps += 1  # the pass that tells the confidence comes before the question
                if not self.auto.should_continue("model", drafted + 1, machine.confidence):
                    break
                drafted += 1
        kept = 0
        while kept < drafted and self.random.random() < machine.kept:
            kept += 1
        nodes = tuple(
            ProposedToken(5, "x", i - 1, i + 1, "model", 0.5, None, i < kept)
            for i in range(drafted)
        )
        emitted = tuple(
            EmittedToken(5, "x", "plain", None, 0.5, None, None) for _ in range(kept + 1)
        )
        took = RoundSeconds(steps * machine.step, machine.pass_seconds(1 + drafted), 0.0)
        trace = RoundTrace(1, 0, nodes, emitted, took, self.auto.parked and not nodes)
        self.auto.finish_round(trace)
        self.seconds += took.total
        self.emitted += len(emitted)
        return trace

    @property
    def speed_up(self) -> float:
        return self.emitted * PLAIN / self.seconds


def simulate(machine: Machine, rounds: int = 600, draft_max: int = 8) -> Simulation:
    auto = AutoDraft(CostModel({n: machine.pass_seconds(n) for n in WIDTHS}))
    auto.limit(draft_max)
    return Simulation(auto, np.random.default_rng(7)).run(machine, rounds)


def drafted(traces: tuple[RoundTrace, ...]) -> list[int]:
    return [len(trace.proposed) for trace in traces]


def test_drafts_grow_where_passes_are_flat() -> None:
    simulation = simulate(FLAT)
    assert np.mean(drafted(simulation.traces[100:])) > 6
    assert simulation.speed_up > 3.0
    assert not any(trace.parked for trace in simulation.traces)


def test_no_draft_is_deeper_than_the_request_allows() -> None:
    assert max(drafted(simulate(FLAT, 100, draft_max=3).traces)) == 3


@pytest.mark.parametrize("machine", [COMPUTE_BOUND, SLOW_DRAFTER], ids=["compute", "drafter"])
def test_a_drafter_that_does_not_pay_is_parked(machine: Machine) -> None:
    simulation = simulate(machine)
    late = simulation.traces[200:]
    assert np.mean([trace.parked for trace in late]) > 0.9
    assert simulation.speed_up > 0.93


def test_a_parked_drafter_is_tried_again_and_comes_back() -> None:
    simulation = simulate(SLOW_DRAFTER, 200)
    assert simulation.traces[-1].parked or simulation.traces[-2].parked
    before = len(simulation.traces)
    simulation.run(FLAT, 600)
    assert np.mean(drafted(simulation.traces[before + 450 :])) > 4


def test_pauses_grow_while_trying_fails() -> None:
    tries = [i for i, n in enumerate(drafted(simulate(SLOW_DRAFTER, 800).traces)) if n]
    gaps = [b - a for a, b in itertools.pairwise(tries) if b - a > 3]
    assert len(gaps) >= 3 and gaps == sorted(gaps) and gaps[-1] > 2 * gaps[0]


def test_confidence_that_is_wrong_is_corrected() -> None:
    """Sure of itself and mostly wrong: verification there is not free."""
    liar = Machine(lambda n: PLAIN * (1 + 0.25 * (n - 1)), 0.02 * PLAIN, 0.1, 0.95)
    simulation = simulate(liar)
    assert np.mean(drafted(simulation.traces[300:])) < 1
    assert simulation.speed_up > 0.9


def test_asking_an_unsure_drafter_in_vain_is_a_cost_too() -> None:
    """It proposes nothing, but every round pays for the pass that says so."""
    assert simulate(UNSURE).speed_up > 0.9


# The cost model


def test_pass_times_between_and_beyond_measured_widths() -> None:
    cost = CostModel({1: 1.0, 2: 1.5, 4: 3.5, 8: 4.5})
    assert [cost.pass_seconds(n) for n in (1, 2, 3, 4, 6, 8)] == [1.0, 1.5, 2.5, 3.5, 4.0, 4.5]
    assert cost.pass_seconds(15) == pytest.approx(4.5 + 7 * 3.5 / 7)
    assert CostModel({1: 2.0}).pass_seconds(3) == pytest.approx(6.0)


def test_a_cost_model_needs_the_time_of_a_plain_pass() -> None:
    with pytest.raises(ValueError, match=r"T\(1\)"):
        CostModel({2: 1.0})


def test_pass_times_follow_what_is_seen_and_shrug_at_outliers() -> None:
    cost = CostModel({1: 1.0})
    cost.learn_pass(1, 100.0)
    assert cost.pass_seconds(1) < 1.25
    for _ in range(100):
        cost.learn_pass(1, 2.0)
    assert cost.pass_seconds(1) == pytest.approx(2.0, rel=0.01)
    cost.learn_pass(5, 4.0)
    assert cost.pass_seconds(5) == 4.0


def test_draft_times_are_kept_per_drafter() -> None:
    cost = CostModel({1: 1.0})
    assert cost.draft_seconds("a") == 0.0
    cost.learn_draft("a", 0.5)
    assert (cost.draft_seconds("a"), cost.draft_seconds("b")) == (0.5, 0.0)
