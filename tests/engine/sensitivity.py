"""What the constants of automatic drafting do: each at half and at double its value, simulated.

    python -m tests.engine.sensitivity

prints the table of docs/decisions.md and the sentences of engine/control/tuning.py. Every constant
meets the same machines, texts and noise. It takes some ten minutes.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.control.auto_draft import AutoDraft
from engine.control.tuning import TUNING, Tuning
from tests.engine.simulated_pair import Machine, Simulation, Text
from tests.engine.test_auto_draft import (
    BETWEEN,
    COMPUTE_BOUND,
    FLAT,
    FREE_TO_START,
    MEMORY_BOUND,
    SLOW_DRAFTER,
)

GROUPS = ("cost", "estimator", "odds", "history", "exploration", "statistics", "policy")
"""Those that decide about drafts; the others only tell about them."""

NOT_SIMULATED = frozenset({"cost.plain_weight", "cost.drift", "cost.drift_passes"})
"""They decide about no draft either: see sensitivity_records.py."""

MEMORIES = frozenset({"memory", "profit_memory", "most"})  # below 1: the distance to 1 is scaled
RATIOS = frozenset({"outlier", "drift", "doubt", "largest"})  # above 1: the logarithm is scaled
SEEDS = (0, 1, 2, 3)
NOISE = 0.15

Chat = Callable[[int], list[Text]]
Value = float | int | tuple[float, ...]


@dataclass(frozen=True)
class Setting:
    """A chat on a machine. measured: what the cost model starts with, if it is not the machine.
    later: the machine of the second half. prompt: tokens before each reply. reloads: what was
    learned is stored and read in the middle."""

    machine: Machine
    chat: Chat
    measured: Machine | None = None
    later: Machine | None = None
    prompt: int = 0
    reloads: bool = False

    def speed_up(self, tuning: Tuning, seed: int) -> float:
        measured = (self.measured or self.machine).cost_model(tuning.cost)
        auto = AutoDraft(measured, tuning)
        texts = self.chat(100 * seed)
        half = len(texts) // 2
        first = self._replies(auto, self.machine, texts[:half])
        if self.reloads:
            stored = json.loads(json.dumps(auto.to_json()))
            auto = AutoDraft(measured, tuning)
            auto.recall(stored)
        second = self._replies(auto, self.later or self.machine, texts[half:])
        return (first.plain_seconds + second.plain_seconds) / (first.seconds + second.seconds)

    def _replies(self, auto: AutoDraft, machine: Machine, texts: list[Text]) -> Simulation:
        simulation = Simulation(auto, machine, NOISE)
        for text in texts:
            simulation.reply(text, self.prompt)
        return simulation


def even(acceptance: float, replies: int = 10, length: int = 128) -> Chat:
    """Texts that are equally hard."""
    return lambda seed: [Text.of(acceptance, length, seed + n) for n in range(replies)]


def turns(easy: float, hard: float, replies: int = 10) -> Chat:
    return lambda seed: [Text.of((easy, hard)[n % 2], 128, seed + n) for n in range(replies)]


def changing(before: float, after: float, replies: int = 5) -> Chat:
    """In the middle of every reply."""
    return lambda seed: [
        Text.of(before, 128, seed + n).then(Text.of(after, 128, seed + 50 + n))
        for n in range(replies)
    ]


def misled(seed: int) -> list[Text]:
    """In every other text a confident drafter is often wrong."""
    random, texts = np.random.default_rng(seed), []
    for number in range(10):
        text = Text.of(0.9, 128, seed + number)
        wrong = random.random(128) < 0.25 * (number % 2)
        texts.append(Text(text.sure, text.right & ~wrong))
    return texts


def slower(machine: Machine, factor: float) -> Machine:
    table = {width: factor * ms for width, ms in machine.table.items()}
    return dataclasses.replace(machine, table=table, step=factor * machine.step)


# Kernels that work on four rows at once: measured at some widths, it looks smooth.
STEPPED = Machine({1: 88, 2: 92, 3: 96, 4: 100, 5: 180, 6: 184, 7: 188, 8: 192, 9: 270}, step=12)
SMOOTH = Machine({1: 88, 2: 141, 4: 189, 8: 277}, step=6)

SETTINGS: Mapping[str, Setting] = {
    "nothing pays": Setting(COMPUTE_BOUND, even(0.7)),
    "nothing pays but code": Setting(COMPUTE_BOUND, turns(0.99, 0.35)),
    "memory-bound, hard": Setting(MEMORY_BOUND, even(0.5)),
    "memory-bound": Setting(MEMORY_BOUND, even(0.7)),
    "memory-bound, easy": Setting(MEMORY_BOUND, even(0.9)),
    "memory-bound, turns": Setting(MEMORY_BOUND, turns(0.95, 0.4)),
    "misled": Setting(MEMORY_BOUND, misled),
    "in between, hard": Setting(BETWEEN, even(0.35)),
    "in between": Setting(BETWEEN, even(0.65)),
    "in between, easy": Setting(BETWEEN, even(0.9)),
    "changes in a reply": Setting(FREE_TO_START, changing(0.35, 0.95)),
    "flat passes": Setting(dataclasses.replace(FLAT, row=1.0), even(0.8)),
    "slow drafter": Setting(SLOW_DRAFTER, even(0.9)),
    "free drafter": Setting(dataclasses.replace(MEMORY_BOUND, step=0.6, token=0.0), even(0.4)),
    "free, rarely right": Setting(
        dataclasses.replace(MEMORY_BOUND, step=0.6, token=0.0), even(0.1)
    ),
    "long prompts": Setting(BETWEEN, even(0.9, 4, 768), prompt=1000),
    "short replies": Setting(BETWEEN, even(0.6, 30, 24), prompt=60),
    "measured wrongly": Setting(STEPPED, even(0.8), measured=SMOOTH),
    "gets slower": Setting(MEMORY_BOUND, even(0.7), later=slower(MEMORY_BOUND, 1.7)),
    "loaded again": Setting(BETWEEN, turns(0.9, 0.35), reloads=True),
}


def names() -> Iterator[str]:
    for group in GROUPS:
        for one in dataclasses.fields(getattr(TUNING, group)):
            name = f"{group}.{one.name}"
            if name not in NOT_SIMULATED:
                yield name


def value_of(tuning: Tuning, name: str) -> Value:
    group, _, constant = name.partition(".")
    value: Value = getattr(getattr(tuning, group), constant)
    return value


def changed(name: str, value: Value) -> Tuning:
    """The tuning with one constant at another value."""
    group, _, constant = name.partition(".")
    part = dataclasses.replace(getattr(TUNING, group), **{constant: value})
    return dataclasses.replace(TUNING, **{group: part})


def varied(name: str, factor: float) -> Tuning:
    """The tuning with one constant at `factor` times its value."""
    return changed(name, _scaled(name.partition(".")[2], value_of(TUNING, name), factor))


def _scaled(constant: str, value: Value, factor: float) -> Value:
    if isinstance(value, tuple):  # a distribution: flatter or more peaked
        powers = [one**factor for one in value]
        return tuple(one / sum(powers) for one in powers)
    if constant in MEMORIES and value < 1.0:
        return 1.0 - (1.0 - value) / factor
    if constant in RATIOS:
        return float(value**factor)
    return round(factor * value) if isinstance(value, int) else factor * value


def speed_ups(tuning: Tuning) -> dict[str, float]:
    """By setting, the geometric mean over the seeds."""
    return {
        name: statistics.geometric_mean(setting.speed_up(tuning, seed) for seed in SEEDS)
        for name, setting in SETTINGS.items()
    }


@dataclass(frozen=True)
class Effect:
    """mean: geometric, over all settings. change: the largest of one setting, as a fraction."""

    mean: float
    change: float
    setting: str

    @staticmethod
    def of(tuning: Tuning, usual: Mapping[str, float]) -> Effect:
        found = speed_ups(tuning)
        changes = {name: found[name] / usual[name] - 1.0 for name in usual}
        most = max(changes, key=lambda name: abs(changes[name]))
        return Effect(statistics.geometric_mean(found.values()), changes[most], most)

    def __str__(self) -> str:
        return f"{self.mean:.3f}x ({self.change:+.1%} {self.setting})"


def main() -> None:
    usual = speed_ups(TUNING)
    mean = statistics.geometric_mean(usual.values())
    print(f"As is: {mean:.3f}x over {len(usual)} settings, {len(SEEDS)} chats each.")
    print("; ".join(f"{name} {speed:.3f}" for name, speed in usual.items()))
    for name in ("estimator.prior_weight", "history.common_weight", "policy.value_weight"):
        # Too small a change to matter: what is left is chance.
        effect = Effect.of(varied(name, 1.02), usual)
        print(f"{name} 2 % larger: {effect.mean / mean - 1.0:+.2%} ({effect.change:+.1%})")
    print("\n| constant | as is | halved | doubled |\n|---|---|---|---|", flush=True)
    for name in names():
        halved, doubled = (Effect.of(varied(name, factor), usual) for factor in (0.5, 2.0))
        print(f"| {name} | {value_of(TUNING, name)} | {halved} | {doubled} |", flush=True)


if __name__ == "__main__":
    main()
