"""The constants of automatic drafting that could have other values, each with what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CostTuning:
    speed_weight: float = 0.1
    plain_weight: float = 0.05
    table_weight: float = 0.01
    new_width_weight: float = 0.1
    draft_weight: float = 0.1
    row_weight: float = 0.1
    largest_row: float = 0.05
    outlier: float = 3.0
    few_tokens: int = 4
    drift: float = 1.35
    drift_passes: int = 60


@dataclass(frozen=True, slots=True)
class EstimatorTuning:
    prior_weight: float = 6.0
    depth_weight: float = 12.0
    doubt: float = 1.6
    most: float = 0.995


@dataclass(frozen=True, slots=True)
class OddsTuning:
    memory: float = 0.97
    prior_weight: float = 3.0
    largest: float = 4.0


@dataclass(frozen=True, slots=True)
class HistoryTuning:
    typical: tuple[float, ...] = (0.01, 0.03, 0.05, 0.06, 0.06, 0.07, 0.10, 0.09, 0.10, 0.43)
    typical_weight: float = 8.0
    common_weight: float = 6.0
    steps_of_a_text: float = 12.0
    longest_record: float = 1000.0
    memory: float = 0.97
    gap_between_texts: float = 24.0


@dataclass(frozen=True, slots=True)
class ExplorationTuning:
    fraction: float = 0.01
    reply_fraction: float = 0.02
    at_first: float = 1.5
    most: float = 6.0
    after_recall: float = 0.5
    usual_length: float = 64.0
    length_weight: float = 0.2


@dataclass(frozen=True, slots=True)
class StatisticsTuning:
    shortest_rest: int = 8
    longest_rest: int = 48
    rest_divisor: int = 4
    trial_rounds: int = 3
    settled_rounds: int = 8
    profit_memory: float = 0.9
    loss: float = 0.03
    replan_steps: int = 6
    longest_replan: int = 48
    cost_tolerance: float = 0.06


@dataclass(frozen=True, slots=True)
class PolicyTuning:
    margin: float = 0.1
    longest_outlook: int = 256
    free_step: float = 0.004
    value_weight: float = 0.05


@dataclass(frozen=True, slots=True)
class SpeedRecordTuning:
    fewest_tokens: int = 16
    fewest_replies: int = 3
    replies: int = 16
    reach: float = math.log(1.25)


@dataclass(frozen=True, slots=True)
class SpeedUpTuning:
    pays: float = 1.03
    most_prompts: int = 1000


@dataclass(frozen=True, slots=True)
class AdviceTuning:
    hopeless: float = 0.97
    hard: float = 0.8


@dataclass(frozen=True, slots=True)
class Tuning:
    cost: CostTuning = field(default_factory=CostTuning)
    estimator: EstimatorTuning = field(default_factory=EstimatorTuning)
    odds: OddsTuning = field(default_factory=OddsTuning)
    history: HistoryTuning = field(default_factory=HistoryTuning)
    exploration: ExplorationTuning = field(default_factory=ExplorationTuning)
    statistics: StatisticsTuning = field(default_factory=StatisticsTuning)
    policy: PolicyTuning = field(default_factory=PolicyTuning)
    speed_record: SpeedRecordTuning = field(default_factory=SpeedRecordTuning)
    speedup: SpeedUpTuning = field(default_factory=SpeedUpTuning)
    advice: AdviceTuning = field(default_factory=AdviceTuning)


TUNING = Tuning()
