"""--speculate auto on simulated machines: the time it needs against plain decoding."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.control.acceptance_estimator import (
    BINS,
    DEPTHS,
    AcceptanceEstimator,
    ConfidenceHistory,
    confidence_bin,
)
from engine.control.auto_draft import AutoDraft
from engine.control.cost import CostModel
from engine.control.draft_plan import DraftCosts, DraftPlan
from tests.engine.simulated_pair import NAME, Machine, Simulation, Text, simulate

# Measured on two cores: weights of 4 bits, where a pass over n tokens takes n times as long, and
# of 16 bits, where verifying is cheap. Milliseconds.
COMPUTE_BOUND = Machine({1: 92, 2: 180, 4: 244, 8: 580}, step=27, token=5)
MEMORY_BOUND = Machine({1: 194, 2: 230, 4: 309, 8: 428}, step=27, token=5)
BETWEEN = Machine({1: 88, 2: 141, 3: 172, 4: 189, 8: 277}, step=12, token=5)
FLAT = Machine({1: 30, 2: 30.6, 8: 34.2}, step=1.5)
SLOW_DRAFTER = Machine({1: 30, 8: 34}, step=33)
FREE_TO_START = Machine(BETWEEN.table, step=12)


def texts(acceptance: float, replies: int = 8, length: int = 128) -> list[Text]:
    return [Text.of(acceptance, length, seed) for seed in range(replies)]


def informed_speed_up(machine: Machine, text: Text) -> float:
    """Of the best rule that knows how often each confidence occurs and is right in this text."""
    bins = np.array([confidence_bin(sure) for sure in text.sure])
    fractions = np.bincount(bins, minlength=BINS) / len(bins)
    right = np.bincount(bins, weights=text.right, minlength=BINS)
    kept = right / np.maximum(np.bincount(bins, minlength=BINS), 1)
    cost = machine.cost_model()
    added, step, plain = cost.added_seconds(8), machine.step / 1e3, cost.pass_seconds(1)
    tables = np.tile(kept, (DEPTHS, 1)), np.tile(fractions, (2, 1))
    low, high = 0.0, plain
    for _ in range(14):  # the value of a token at which a round saves nothing
        value = (low + high) / 2
        saved = DraftPlan(DraftCosts(added, step, value), *tables).start_value
        low, high = (low, value) if value + max(0.0, saved) > plain else (value, high)
    return plain / high


def joined(parts: list[Text]) -> Text:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.then(part)
    return whole


def drafted(simulation: Simulation) -> list[int]:
    return [len(trace.proposed) for trace in simulation.traces]


@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_never_slower_than_plain_where_nothing_pays(acceptance: float, noise: float) -> None:
    parts = texts(acceptance)
    assert simulate(COMPUTE_BOUND, parts, noise).speed_up > 0.985
    for part in parts[:3]:  # also in the first reply, of which nothing is known
        assert simulate(COMPUTE_BOUND, [part], noise).speed_up > 0.965


@pytest.mark.parametrize("acceptance", [0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_nearly_as_fast_as_the_best_rule_where_it_pays(acceptance: float, noise: float) -> None:
    parts = texts(acceptance)
    best = informed_speed_up(MEMORY_BOUND, joined(parts))
    assert best > 1.15
    assert simulate(MEMORY_BOUND, parts, noise).speed_up > 0.92 * best


@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.7, 0.9])
def test_near_the_best_rule_in_between(acceptance: float) -> None:
    parts = texts(acceptance, replies=12)
    best = informed_speed_up(BETWEEN, joined(parts))
    assert simulate(BETWEEN, parts).speed_up > 0.93 * best


def test_drafts_grow_where_passes_are_flat() -> None:
    simulation = simulate(FLAT, texts(0.95))
    assert np.mean(drafted(simulation)) > 5
    assert simulation.speed_up > 4.0


def test_no_draft_is_deeper_than_the_request_allows() -> None:
    assert max(drafted(simulate(FLAT, texts(0.95, 2), draft_max=3))) == 3


@pytest.mark.parametrize("machine", [COMPUTE_BOUND, SLOW_DRAFTER], ids=["passes", "steps"])
def test_a_drafter_that_cannot_pay_is_hardly_tried(machine: Machine) -> None:
    simulation = simulate(machine, texts(0.6))
    assert sum(drafted(simulation)[20:]) == 0
    late = [trace.parked for trace in simulation.traces[200:]]
    assert np.mean(late) > 0.97


def test_trials_of_a_drafter_that_does_not_pay_cost_little() -> None:
    """It might pay on other text, so it is tried; all trials together take under 1 %."""
    first = simulate(FREE_TO_START, texts(0.35, 4))
    before = first.seconds, first.plain_seconds
    for text in texts(0.35, 12):
        first.reply(text)
    lost = (first.seconds - before[0]) / (first.plain_seconds - before[1]) - 1.0
    assert lost < 0.012
    asked = sum(trace.seconds.draft > 0 for trace in first.traces[-600:])
    assert asked >= 2


def test_a_change_of_text_is_noticed() -> None:
    """Prose, then code in the same reply: drafting begins within a few dozen tokens."""
    prose, code = Text.of(0.35, 300, 1), Text.of(0.95, 300, 2)
    simulation = simulate(FREE_TO_START, [*texts(0.35, 4), prose.then(code)])
    start = next(i for i, trace in enumerate(simulation.traces) if i > 480 and trace.position > 298)
    code_rounds = simulation.traces[start:]
    kept = sum(len(trace.emitted) - 1 for trace in code_rounds)
    assert kept > 100
    back = Simulation(simulation.auto, FREE_TO_START).reply(Text.of(0.35, 300, 5))
    assert back.speed_up > 0.95


def test_code_after_prose_in_the_same_chat() -> None:
    parts = [part for a in (0.5, 0.95, 0.5, 0.95) for part in texts(a, 4)]
    reached = []
    simulation = simulate(MEMORY_BOUND, [])
    for part in parts:
        before = simulation.seconds, simulation.plain_seconds
        simulation.reply(part)
        speed_up = (simulation.plain_seconds - before[1]) / (simulation.seconds - before[0])
        reached.append(speed_up / informed_speed_up(MEMORY_BOUND, part))
    assert np.mean(reached) > 0.88


def test_a_drafter_that_has_to_read_the_whole_text_first_is_tried_less() -> None:
    """Catching up is a cost: where it alone takes 6 % of the time, trials stay within theirs."""
    simulation = simulate(BETWEEN, texts(0.35, 16))
    assert simulation.speed_up > 0.985


def test_short_replies_are_left_alone_where_drafting_hardly_pays() -> None:
    """However much may be spent on trials: to read the prompt would be a third of such a reply."""
    auto = simulate(BETWEEN, texts(0.35, 8)).auto
    short = [
        Simulation(auto, BETWEEN, _behind=60).reply(Text.of(0.35, 12, 100 + seed))
        for seed in range(30)
    ]
    assert all(trace.seconds.draft == 0.0 for reply in short for trace in reply.traces)


def test_easy_texts_do_not_make_the_next_one_look_easy() -> None:
    """Code is drafted long and looked at often; half of all texts are prose all the same."""
    auto = simulate(COMPUTE_BOUND, []).auto
    for seed in range(6):
        for text in (Text.of(0.99, 200, seed), Text.of(0.35, 200, 50 + seed)):
            Simulation(auto, COMPUTE_BOUND).reply(text)
    short = [
        Simulation(auto, COMPUTE_BOUND).reply(Text.of(0.5, 20, 80 + seed)) for seed in range(8)
    ]
    assert np.mean([reply.speed_up for reply in short]) > 0.97


def test_every_text_counts_alike_in_what_is_expected() -> None:
    history = ConfidenceHistory()
    for _ in range(400):
        for sure, steps in ((0.99, 200), (0.1, 20)):
            for _ in range(steps):
                history.add(sure, 1)
            history.begin_text()
    history.fade(1000.0)
    first = history.fractions()[0]
    assert first[-1] == pytest.approx(first[0], rel=0.1)
    again = ConfidenceHistory.from_json(json.loads(json.dumps(history.to_json())))
    assert again.fractions() == pytest.approx(history.fractions(), abs=1e-3)


def test_confidence_that_is_wrong_is_corrected() -> None:
    """Sure of itself and mostly wrong."""
    random = np.random.default_rng(1)
    liar = [Text(np.full(128, 0.95), random.random(128) < 0.1) for _ in range(8)]
    assert simulate(MEMORY_BOUND, liar).speed_up > 0.97


def test_what_was_learned_outlives_the_load() -> None:
    learned = simulate(BETWEEN, texts(0.35, 10)).auto
    content = json.loads(json.dumps(learned.to_json()))
    auto = AutoDraft(BETWEEN.cost_model())
    auto.recall(content)
    fresh = simulate(BETWEEN, [Text.of(0.35, 128, 77)])
    again = Simulation(auto, BETWEEN).reply(Text.of(0.35, 128, 77))
    assert fresh.speed_up < again.speed_up
    assert again.speed_up > 0.97


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"version": 99, "accounts": {}},
        {"version": 2, "accounts": {}, "speeds": {}},
        {"version": 3, "accounts": {}},
        {"version": 3, "accounts": {"greedy m": {}}, "speeds": {}},
        {
            "version": 3,
            "accounts": {"greedy m": {"chance": {"kept": [[1]], "tried": [[1]]}}},
            "speeds": {},
        },
        {"version": 3, "accounts": {}, "speeds": {"greedy": {"logarithms": 0.0}}},
        {
            "version": 3,
            "accounts": {},
            "speeds": {"greedy": {"logarithms": float("nan"), "tokens": 1}},
        },
        {"version": 3, "accounts": {}, "speeds": {"greedy": {"logarithms": 1.0, "tokens": -1}}},
    ],
)
def test_a_damaged_record_is_refused(content: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        AutoDraft(FLAT.cost_model()).recall(content)


@pytest.mark.parametrize("acceptance", [0.6, 0.8, 0.95])
def test_the_speed_up_is_predicted(acceptance: float) -> None:
    simulation = simulate(MEMORY_BOUND, texts(acceptance, 4))
    predicted = simulation.auto.predictions()["greedy"]
    later = Simulation(simulation.auto, MEMORY_BOUND)
    for seed in range(20, 30):
        later.reply(Text.of(acceptance, 128, seed))
    assert predicted == pytest.approx(later.speed_up, rel=0.1)


def test_where_nothing_pays_plain_speed_is_predicted() -> None:
    predicted = simulate(SLOW_DRAFTER, texts(0.9, 3)).auto.predictions()
    assert predicted["greedy"] == pytest.approx(1.0, abs=0.03)


def test_nothing_is_predicted_from_a_few_tokens() -> None:
    assert simulate(MEMORY_BOUND, texts(0.9, 1, length=16)).auto.predictions() == {}


def test_predictions_outlive_the_load() -> None:
    learned = simulate(MEMORY_BOUND, texts(0.9, 3)).auto
    auto = AutoDraft(MEMORY_BOUND.cost_model())
    auto.recall(json.loads(json.dumps(learned.to_json())))
    assert auto.predictions()["greedy"] == pytest.approx(learned.predictions()["greedy"], rel=0.01)


def test_greedy_and_sampled_replies_are_learned_apart() -> None:
    simulation = simulate(MEMORY_BOUND, texts(0.2, 6))
    greedy = simulation.auto.of(NAME).expected_saving()
    simulation.auto.begin_reply(8, "sampled", 100)
    assert simulation.auto.of(NAME).expected_saving() > greedy
    assert set(simulation.auto.predictions()) == {"greedy"}


# Texts that are harder than others


def test_a_record_is_doubted_until_the_text_has_borne_it_out() -> None:
    """Drafts go where the estimate is highest, and there it is too high."""
    estimator = experienced()
    estimator.begin_text()
    at_first = estimator.estimate(0.99)
    assert at_first < 0.98
    for number in range(100):
        estimator.learn(0.99, float(number % 50 != 0))
    assert at_first < estimator.estimate(0.99) < 0.985


def experienced() -> AcceptanceEstimator:
    """Of a drafter that is right in 49 of 50 cases when it is sure."""
    estimator = AcceptanceEstimator(adapts=True)
    for number in range(500):
        estimator.learn(0.99, float(number % 50 != 0))
    return estimator


def test_in_a_text_with_more_rejections_all_probabilities_fall_at_once() -> None:
    estimator = experienced()
    usual = estimator.estimate(0.99), estimator.estimate(0.5)
    for number in range(20):
        estimator.learn(0.99, float(number % 4 != 0))
    assert 1.0 - estimator.estimate(0.99) > 2.0 * (1.0 - usual[0])
    assert 0.0 < estimator.estimate(0.5) < usual[1] - 0.1
    assert estimator.table()[0, -1] == pytest.approx(estimator.estimate(0.99))
    estimator.begin_text()
    assert estimator.estimate(0.99) > 0.95, "one text among many"


def test_in_a_text_with_fewer_rejections_all_probabilities_rise() -> None:
    estimator = experienced()
    usual = estimator.estimate(0.7), estimator.estimate(0.5)
    for _ in range(60):
        estimator.learn(0.7, 1.0)
    assert estimator.estimate(0.5) > usual[1] and estimator.estimate(0.7) > usual[0]
    assert estimator.table().max() <= 1.0


def test_texts_that_differ_are_drafted_differently() -> None:
    """Code that is sure and right, and reasoning that is as sure and often wrong, by turns."""
    random = np.random.default_rng(5)
    turns = []
    for seed in range(24):
        text = Text.of(0.95, 128, seed)
        wrong = random.random(128) < 0.15 * (seed % 2)
        turns.append(Text(text.sure, text.right & ~wrong))
    simulation = simulate(MEMORY_BOUND, [], draft_max=16)
    lengths: list[list[int]] = [[], []]
    for number, text in enumerate(turns):
        before = len(simulation.traces)
        simulation.reply(text)
        if number >= 12:
            lengths[number % 2] += [len(one.proposed) for one in simulation.traces[before:]]
    assert np.mean(lengths[1]) < 0.8 * np.mean(lengths[0])


# Choosing


def test_a_drafter_saves_more_the_more_confident_it_is() -> None:
    auto = simulate(MEMORY_BOUND, texts(0.8, 2)).auto
    savings = [auto.of(NAME).expected_saving(sure) for sure in (0.3, 0.6, 0.99)]
    assert savings == sorted(savings) and savings[0] < auto.of(NAME).expected_saving() < savings[2]


def test_a_tree_grows_while_rows_pay() -> None:
    auto = AutoDraft(CostModel({1: 1.0, 2: 1.1, 4: 1.3, 5: 2.3}))
    auto.begin_reply(8, "greedy", 100)
    auto.start_round()
    assert auto.of("tree").pays_to_add(0.2, 1) and not auto.of("tree").pays_to_add(0.05, 1)
    assert not auto.of("tree").pays_to_add(0.9, 4)
