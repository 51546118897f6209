"""What the constants do that decide about no draft: when costs count as drifted, and which speed-up
is predicted.

    python -m tests.engine.sensitivity_records

prints the figures that engine/control/tuning.py quotes. It takes seconds.
"""

from __future__ import annotations

import dataclasses
import math
import statistics

import numpy as np

from engine.control.auto_draft import AutoDraft
from engine.control.cost import CostModel
from engine.control.speed_record import SpeedRecord
from engine.control.tuning import TUNING, CostTuning, SpeedRecordTuning
from tests.engine.simulated_pair import Simulation, Text
from tests.engine.test_auto_draft import MEMORY_BOUND

NOISE = 0.15
PASSES = 1000


def drifted_after(
    tuning: CostTuning, error: float, lasts: int = PASSES, seed: int = 0
) -> int | None:
    """Passes of width 3 until the model says that it drifted. The first `lasts` of them take
    `error` times as long as was measured."""
    random = np.random.default_rng(seed)
    cost = CostModel({1: 1.0, 3: 1.5}, tuning=tuning)
    for number in range(PASSES):
        for width, seconds in ((1, 1.0), (3, 1.5 * (error if number < lasts else 1.0))):
            cost.learn_pass(width, seconds * math.exp(NOISE * random.standard_normal()))
        if cost.has_drifted:
            return number + 1
    return None


def recent_plain(tuning: CostTuning) -> tuple[int, float]:
    """Passes until the recent T(1) has followed a rise of 30 % to within 5 %, and its spread with
    noise of 15 % and no rise."""
    risen, after = CostModel({1: 1.0}, tuning=tuning), 0
    while risen.recent_seconds(1) < 1.3 / 1.05:
        risen.learn_pass(1, 1.3)
        after += 1
    random, found = np.random.default_rng(0), []
    steady = CostModel({1: 1.0}, tuning=tuning)
    for _ in range(2000):
        steady.learn_pass(1, math.exp(NOISE * random.standard_normal()))
        found.append(steady.recent_seconds(1))
    return after, statistics.stdev(found[100:])


def predicted(tuning: SpeedRecordTuning, speed_ups: list[float]) -> list[float | None]:
    """After each of these replies of 64 tokens, the prediction for the next."""
    record, found = SpeedRecord(tuning), []
    for speed_up in speed_ups:
        record.begin_reply()
        for _ in range(8):
            record.add(8, 8.0 * speed_up, 8.0)
        found.append(record.speed_up)
    return found


def prediction_error(tuning: SpeedRecordTuning, first: bool = False) -> float:
    """Root mean square error of the logarithm. One reply in ten loops, and is 8 times as fast; the
    others spread by 10 % around 1.4. first: of the first prediction only."""
    errors: list[float] = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        loops = random.random(40) < 0.1
        usual = 1.4 * np.exp(0.1 * random.standard_normal(40))
        values = [one for one in predicted(tuning, np.where(loops, 8.0, usual).tolist()) if one]
        errors += [math.log(one / 1.4) for one in (values[:1] if first else values)]
    return math.sqrt(statistics.fmean(error**2 for error in errors))


def replies_to_adapt(tuning: SpeedRecordTuning) -> int:
    """After thirty replies at 1.4, replies at 1.0 until the prediction is within 5 % of that."""
    found = predicted(tuning, [1.4] * 30 + [1.0] * 60)[30:]
    return next(number for number, one in enumerate(found, 1) if one and one < 1.05)


def spread_of_replies(tokens: int) -> float:
    """Of the logarithm of one reply's speed-up, on texts that are equally hard."""
    auto = AutoDraft(MEMORY_BOUND.cost_model())
    found = []
    for seed in range(120):
        reply = Simulation(auto, MEMORY_BOUND, NOISE).reply(Text.of(0.7, tokens, seed))
        found.append(math.log(reply.speed_up))
    return statistics.stdev(found[20:])


def main() -> None:
    cost, record = TUNING.cost, TUNING.speed_record
    for drift in (cost.drift**0.5, cost.drift, cost.drift**2):
        tuning = dataclasses.replace(cost, drift=drift)
        found = [drifted_after(tuning, error) for error in (1.0, 1.25, 1.5, 2.0)]
        print(f"drift {drift:.2f}: wrong by 1, 1.25, 1.5, 2: found after {found} passes;", end=" ")
        print(f"100 passes 1.5 times as slow: {drifted_after(tuning, 1.5, 100)}")
    for passes in (30, 60, 120):
        tuning = dataclasses.replace(cost, drift_passes=passes)
        found = [drifted_after(tuning, error) for error in (1.5, 2.0, 3.0)]
        print(f"drift_passes {passes}: wrong by 1.5, 2, 3: found after {found} passes")
    for weight in (cost.plain_weight / 2, cost.plain_weight, cost.plain_weight * 2):
        after, spread = recent_plain(dataclasses.replace(cost, plain_weight=weight))
        print(f"plain_weight {weight}: follows in {after} passes, spreads by {spread:.1%}")
    for name, changed in (
        ("as it is", record),
        ("reach halved", dataclasses.replace(record, reach=record.reach / 2)),
        ("reach doubled", dataclasses.replace(record, reach=record.reach * 2)),
        ("replies 8", dataclasses.replace(record, replies=8)),
        ("replies 32", dataclasses.replace(record, replies=32)),
        ("fewest_replies 2", dataclasses.replace(record, fewest_replies=2)),
        ("fewest_replies 6", dataclasses.replace(record, fewest_replies=6)),
    ):
        errors = prediction_error(changed), prediction_error(changed, first=True)
        print(f"{name}: error {errors[0]:.3f}, of the first prediction {errors[1]:.3f};", end=" ")
        print(f"adapts in {replies_to_adapt(changed)} replies")
    for tokens in (8, 16, 32, 64, 128):
        print(f"replies of {tokens} tokens: speed-ups spread by {spread_of_replies(tokens):.1%}")


if __name__ == "__main__":
    main()
