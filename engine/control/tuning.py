"""The constants of automatic drafting that could have other values, each with what was measured.

One frozen object; whoever needs a constant is handed its part, and TUNING is the default. Every
comment says what the constant is, its unit, and what happens at half and at double its value:

    Halved 1.299x (misled -1.2 %), doubled 1.303x.

is the speed-up over plain decoding that `python -m tests.engine.sensitivity` finds, the geometric
mean over 20 simulated settings of machine and text, 4 chats each (as is 1.290x), and the setting
that changes most, if by 1 % or more. A change of the mean by 0.1 %, and of one setting by 1 %, can
be chance. Where there is a standard error (+-), 8 other chats were simulated, by
`python -m tests.engine.sensitivity_check`. "Scaled" means: of values below 1 the distance to 1 is
halved or doubled, of ratios the logarithm. Constants that decide about no draft are measured by
`python -m tests.engine.sensitivity_records`. docs/decisions.md has the summary.

Beside their use stay numbers that are structure: bins of confidence and of depth
(acceptance_estimator), cells of the plan's table (draft_plan), lengths that are shown (advice),
the stored formats (drafting_memory, speed_record), quantiles (speedup), and when the figure of a
reply is told (payoff).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CostTuning:
    """engine/control/cost.py: following what passes and draft steps take. Weights are of the newest
    observation in a moving average."""

    # Of the factor by which all passes are slower than measured.
    # Halved 1.288x (loaded again -1.9 %), doubled 1.290x (loaded again +1.2 %).
    speed_weight: float = 0.1

    # Of T(1) alone, besides that factor: memory shared with other programs moved it between 53 and
    # 69 ms within minutes while wider passes stayed as they were (docs/figures.md). For figures
    # only. After a rise of 30 % it is within 5 % in 8 passes (10 halved, 6 doubled); with noise of
    # 15 % a pass it spreads by 4.8 % (4.3 %, 5.7 %).
    plain_weight: float = 0.05

    # Of one width relative to the others, where it was measured.
    # Halved 1.289x (loaded again -1.3 %), doubled 1.290x.
    table_weight: float = 0.01

    # The same for a width that was only filled in between measured ones.
    # Insensitive: halved 1.290x, doubled 1.288x.
    new_width_weight: float = 0.1

    # Of a drafter's seconds per step and per token read.
    # Halved 1.290x (changes in a reply +1.0 %), doubled 1.290x (loaded again +1.3 %).
    draft_weight: float = 0.1

    # Of what the round loop itself takes per row: 0.2 to 1.2 ms a token (docs/figures.md).
    # Insensitive: halved 1.290x, doubled 1.290x.
    row_weight: float = 0.1

    # The loop's time per row counts up to this fraction of T(1): beyond it something else ran.
    # Insensitive: halved 1.291x, doubled 1.290x.
    largest_row: float = 0.05

    # Times as slow, or as fast, as expected: an observation counts as no more than that. Scaled.
    # Insensitive: halved 1.291x, doubled 1.290x.
    outlier: float = 3.0

    # Tokens. A round in which the drafter read more than these tells its seconds per token read;
    # with fewer, it tells the seconds of a step.
    # Halved 1.290x, doubled 1.291x (loaded again +1.0 %).
    few_tokens: int = 4

    # Ratio of one width's time to that of the others: beyond it the pair is measured again. A width
    # that was measured wrongly by 1.5 is found after 110 passes, 100 passes at 1.5 times their time
    # raise no alarm. At 1.16 (scaled) they do after 60; at 1.82 an error of 1.5 is never found.
    drift: float = 1.35

    # Passes of a width before that is asked. An error of 2 is found after 60 (52 halved, 120
    # doubled), one of 1.5 after 110 (110, 120): insensitive.
    drift_passes: int = 60


@dataclass(frozen=True, slots=True)
class EstimatorTuning:
    """engine/control/acceptance_estimator.py: acceptance probabilities by confidence."""

    # Tokens that the prior (confidences are calibrated) counts for, in each bin.
    # Halved 1.287x (in between -1.2 %), doubled 1.288x (loaded again -1.0 %).
    prior_weight: float = 6.0

    # Tokens that the record of all depths counts for, in the table of one depth.
    # Halved 1.288x (misled -1.5 %), doubled 1.288x (changes in a reply -1.5 %).
    depth_weight: float = 12.0

    # Odds ratio of rejection at the start of every text. Drafts go where the estimate is highest,
    # and there it is too high more often than too low. Without it (1.0) misled -2.3 % +- 0.5,
    # memory-bound, easy -2.0 % +- 0.3, in between +1.9 % +- 0.5. Scaled.
    # Halved 1.289x (in between +3.1 %), doubled 1.281x (memory-bound, hard -4.5 %).
    doubt: float = 1.6

    # The highest acceptance probability that a drafter is believed to reach on any text. Scaled.
    # No effect in any setting.
    most: float = 0.995


@dataclass(frozen=True, slots=True)
class OddsTuning:
    """engine/control/rejection_odds.py: harder and easier texts."""

    # What a judged token counts for, once one more was judged: about 33 tokens count. Scaled.
    # Halved 1.288x (in between -1.2 %), doubled 1.288x (loaded again -2.0 %).
    memory: float = 0.97

    # Rejected tokens that "as in all texts" counts for.
    # Halved 1.287x (measured wrongly -1.2 %), doubled 1.287x.
    prior_weight: float = 3.0

    # The odds ratio, or its inverse, at most. Scaled.
    # Halved 1.290x (misled -1.4 %), doubled 1.290x.
    largest: float = 4.0


@dataclass(frozen=True, slots=True)
class HistoryTuning:
    """ConfidenceHistory in engine/control/acceptance_estimator.py: which confidences to expect."""

    # Fractions by bin before a drafter has drafted: those of a small model of the target's family.
    # Halved is their square root, doubled their square, both scaled to a sum of 1.
    # Halved 1.291x, doubled 1.288x (changes in a reply +1.3 %).
    typical: tuple[float, ...] = (0.01, 0.03, 0.05, 0.06, 0.06, 0.07, 0.10, 0.09, 0.10, 0.43)

    # Draft steps that these count for.
    # Halved 1.290x (in between -1.1 %), doubled 1.291x.
    typical_weight: float = 8.0

    # Draft steps that the record of all texts counts for, beside recent steps.
    # Halved 1.290x (changes in a reply -1.4 %), doubled 1.288x.
    common_weight: float = 6.0

    # Draft steps that one text adds to the record of all texts, at most.
    # Halved 1.289x (loaded again -1.3 %), doubled 1.290x.
    steps_of_a_text: float = 12.0

    # Draft steps in the record of all texts, at most: older texts are forgotten beyond it.
    # No effect in any setting. None has a chat that long.
    longest_record: float = 1000.0

    # What a draft step counts for after one more, or after a token without a draft. Scaled.
    # Halved 1.291x, doubled 1.286x (loaded again -5.1 %).
    memory: float = 0.97

    # Tokens without a draft that the gap between two replies counts as.
    # Halved 1.288x (in between -1.2 %), doubled 1.291x (loaded again +1.5 %).
    gap_between_texts: float = 24.0


@dataclass(frozen=True, slots=True)
class ExplorationTuning:
    """engine/control/exploration.py: trials of drafters that do not seem to pay."""

    # Plain rounds that a written token adds to the budget.
    # Halved 1.291x, doubled 1.290x (loaded again -2.2 %).
    fraction: float = 0.01

    # Of a reply's tokens, in plain rounds: what one trial may take.
    # Insensitive: halved 1.291x, doubled 1.290x.
    reply_fraction: float = 0.02

    # Plain rounds at the start.
    # Insensitive: halved 1.290x, doubled 1.290x.
    at_first: float = 1.5

    # Plain rounds that can be saved up.
    # Halved 1.292x (loaded again +1.1 %), doubled 1.290x.
    most: float = 6.0

    # Plain rounds at the start, when statistics of an earlier load were read.
    # Insensitive: halved 1.290x, doubled 1.290x.
    after_recall: float = 0.5

    # Tokens of a reply, before any was written.
    # No effect in any setting: it matters for the first replies only.
    usual_length: float = 64.0

    # Of the last reply's length, in the usual one.
    # No effect in any setting.
    length_weight: float = 0.2


@dataclass(frozen=True, slots=True)
class StatisticsTuning:
    """engine/control/drafter_statistics.py: rests, trials, and how often a plan is made."""

    # Rounds without the drafter after its first failure; every further failure doubles them.
    # Halved 1.292x, doubled 1.289x (loaded again +1.4 %).
    shortest_rest: int = 8

    # Rounds of the longest rest. At 400: changes in a reply -3.3 % +- 0.6;
    # at 24: +2.3 % +- 0.5, mean +0.18 % +- 0.09.
    # Halved 1.292x (changes in a reply +1.3 %), doubled 1.290x.
    longest_rest: int = 48

    # A new reply divides the next rest by this.
    # Insensitive: halved 1.289x, doubled 1.291x.
    rest_divisor: int = 4

    # Rounds of a trial.
    # Halved 1.290x, doubled 1.289x (loaded again -1.8 %).
    trial_rounds: int = 3

    # Rounds after which a drafter's losses are believed; after twice as many without a rest, its
    # next rest is the shortest again.
    # Halved 1.288x (in between -2.1 %), doubled 1.292x (in between +1.4 %).
    settled_rounds: int = 8

    # Of the mean saving per round, once one more round was seen: about 10 rounds count.
    # At 0.95: mean +0.19 % +- 0.07. Scaled.
    # Halved 1.282x (memory-bound, turns -2.9 %), doubled 1.294x (in between +2.0 %).
    profit_memory: float = 0.9

    # Plain rounds lost per round, on average, that end in a rest.
    # Halved 1.288x (changes in a reply -1.5 %), doubled 1.293x (in between +1.4 %).
    loss: float = 0.03

    # Draft steps before a plan is made again; each plan waits half as many longer than the last.
    # Insensitive: halved 1.290x, doubled 1.289x.
    replan_steps: int = 6

    # Draft steps that a plan waits at most. Fewer cost time that is not simulated: a plan for 8
    # tokens takes 0.13 ms, one for 16 0.25 ms.
    # Insensitive: halved 1.291x, doubled 1.291x.
    longest_replan: int = 48

    # Of the value of a token: when costs have moved by so much, a plan is made again at once.
    # Halved 1.290x (loaded again +1.2 %), doubled 1.288x (loaded again -3.7 %).
    cost_tolerance: float = 0.06


@dataclass(frozen=True, slots=True)
class PolicyTuning:
    """engine/control/drafter_policy.py, auto_draft.py: when a drafter may start."""

    # Of a plain round: what a plan has to save. Below it the saving may be chance.
    # At 0.02: in between +1.7 % +- 0.5, changes in a reply -0.4 % +- 0.4, mean +0.06 % +- 0.07.
    # Halved 1.290x, doubled 1.286x (memory-bound, hard -4.0 %).
    margin: float = 0.1

    # Tokens ahead, at most, that may make up for the text a drafter has to read first.
    # At 64: long prompts +1.5 % +- 0.5, mean +0.08 % +- 0.03.
    # No effect in any setting.
    longest_outlook: int = 256

    # Of a plain round: a drafter whose step takes less is always asked, because its confidence
    # costs next to nothing and says more than a plan.
    # Insensitive: halved 1.290x, doubled 1.290x.
    free_step: float = 0.004

    # Of the newest round, in the seconds that a token takes at present.
    # Insensitive: halved 1.288x, doubled 1.289x.
    value_weight: float = 0.05


@dataclass(frozen=True, slots=True)
class SpeedRecordTuning:
    """engine/control/speed_record.py: the speed-up that is predicted. Simulated replies spread by
    10 %, one in ten loops and is 8 times as fast; the error is that of the logarithm."""

    # Tokens; a shorter reply does not count. Simulated speed-ups of equally hard replies spread by
    # 16 % at this length, by 21 % at half and by 11 % at double it.
    fewest_tokens: int = 16

    # Replies before there is a prediction. The first one is off by 0.32 (0.18 from 2, 0.08 from 6):
    # where most of so few replies loop, it follows them.
    fewest_replies: int = 3

    # The last so many count. Error 0.080 (0.093 halved, 0.078 doubled); after other work begins the
    # prediction is right again in 14 replies (7, 27).
    replies: int = 16

    # Logarithm: a reply further from the others than this pulls no harder. Error 0.080 (0.075
    # halved, 0.104 doubled).
    reach: float = math.log(1.25)


@dataclass(frozen=True, slots=True)
class SpeedUpTuning:
    """engine/control/speedup.py: what counts as a gain. Chosen, not measured."""

    # Times as fast as plain decoding: less does not make up for a drafter's memory, and is within
    # what the same bench gave twice (1.00x with an interval of 0.97 to 1.05, docs/figures.md).
    pays: float = 1.03

    # Prompts: an effect that needs more to be significant counts as not measurable. A gain of 3 %
    # needs as many where the logarithm of a prompt's ratio deviates by 0.33; on the questions of
    # docs/figures.md it does by 0.14 (nothing gained) to 0.40 (1.76x).
    most_prompts: int = 1000


@dataclass(frozen=True, slots=True)
class AdviceTuning:
    """engine/control/advice.py: words for the acceptance at which drafting breaks even. Chosen, not
    measured; for comparison, 65 to 67 % of drafted tokens are accepted in docs/figures.md."""

    # Above this fraction of tokens right: "hardly ever pays".
    hopeless: float = 0.97

    # Above this: "pays only on very predictable text".
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
