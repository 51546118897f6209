"""A target and a drafter that are tables of seconds and coins tossed beforehand: no model.

The text is fixed, as greedy text is: at each of its positions it is settled how sure the drafter is
of the next token and whether it is right, so that every way of drafting meets the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.control.auto_draft import AutoDraft
from engine.control.cost import CostModel
from engine.control.tuning import TUNING, CostTuning
from engine.data.draft_cost import DraftCost
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace

NAME = "model"


@dataclass(frozen=True)
class Machine:
    """Milliseconds. table: of a pass by width. step, token: of a draft step, and of every token
    that the drafter reads without drafting. row: of the loop itself, for every row of a pass."""

    table: Mapping[int, float]
    step: float
    token: float = 0.0
    row: float = 0.0

    def cost_model(self, tuning: CostTuning = TUNING.cost) -> CostModel:
        seconds = {width: ms / 1e3 for width, ms in self.table.items()}
        drafters = {NAME: DraftCost(self.step / 1e3, self.token / 1e3)}
        return CostModel(seconds, drafters=drafters, tuning=tuning)

    def pass_seconds(self, width: int) -> float:
        return CostModel({n: ms / 1e3 for n, ms in self.table.items()}).pass_seconds(width)


@dataclass(frozen=True)
class Text:
    """By position. sure: the drafter's confidence in the next token. right: whether it is right."""

    sure: NDArray[np.float64]
    right: NDArray[np.bool_]

    @staticmethod
    def of(acceptance: float, length: int, seed: int, spread: float = 1.2) -> Text:
        """Confidences are honest, beta distributed: a small spread leaves few in the middle."""
        random = np.random.default_rng(seed)
        sure = random.beta(spread * acceptance, spread * (1.0 - acceptance), length)
        return Text(sure, random.random(length) < sure)

    def then(self, other: Text) -> Text:
        return Text(
            np.concatenate([self.sure, other.sure]), np.concatenate([self.right, other.right])
        )


@dataclass
class Simulation:
    """auto is asked as a drafter asks it. noise: spread of the log of every time."""

    auto: AutoDraft
    machine: Machine
    noise: float = 0.0
    draft_max: int = 8
    seconds: float = 0.0
    plain_seconds: float = 0.0
    traces: list[RoundTrace] = field(default_factory=list)
    _behind: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(3)
        widths = range(1, self.draft_max + 2)
        self._passes = {n: self.machine.pass_seconds(n) for n in widths}

    def reply(self, text: Text, prompt: int = 0) -> Simulation:
        """One reply that is the whole text, after a prompt that the drafter has not read."""
        self._behind += prompt
        self.auto.begin_reply(self.draft_max, "greedy", len(text.sure))
        position = 0
        while position < len(text.sure):
            trace = self._round(text, position)
            self.auto.finish_round(trace)
            self.traces.append(trace)
            self.seconds += trace.seconds.draft + trace.seconds.target + trace.seconds.other
            plain = self._passes[1] + self.machine.row / 1e3
            self.plain_seconds += len(trace.emitted) * plain
            position += len(trace.emitted)
        return self

    def _round(self, text: Text, position: int) -> RoundTrace:
        room = min(self.auto.start_round(), len(text.sure) - position - 1)
        drafted, seconds = self._draft(text, position, room)
        kept = 0
        while kept < drafted and text.right[position + kept]:
            kept += 1
        nodes = tuple(
            ProposedToken(
                5, "x", i - 1, i + 1, NAME, float(text.right[position + i]), None, i < kept
            )
            for i in range(drafted)
        )
        emitted = tuple(
            EmittedToken(5, "x", "accepted" if i < kept else "bonus", None, 1.0, None, None)
            for i in range(kept + 1)
        )
        self._behind = 0 if drafted else self._behind + 1
        took = RoundSeconds(
            seconds * self._jitter(),
            self._passes[1 + drafted] * self._jitter(),
            self.machine.row / 1e3 * (1 + drafted),
        )
        parked = self.auto.parked and not nodes
        return RoundTrace(len(self.traces) + 1, position, nodes, emitted, took, parked)

    def _draft(self, text: Text, position: int, room: int) -> tuple[int, float]:
        """As drafters.stepping.draft_chain goes about it: tokens drafted, and the seconds."""
        policy, step = self.auto.of(NAME), self.machine.step / 1e3
        if room < 1 or not policy.may_catch_up(self._behind) or not policy.may_start():
            return 0, 0.0
        seconds = self._behind * self.machine.token / 1e3
        self._behind = 0
        for depth in range(1, room + 1):
            if not policy.may_step(depth):
                return depth - 1, seconds
            seconds += step
            if not policy.should_continue(depth, float(text.sure[position + depth - 1])):
                return depth - 1, seconds
        return room, seconds

    def _jitter(self) -> float:
        """With mean 1."""
        exponent = self.noise * self._random.standard_normal() - self.noise**2 / 2
        return float(np.exp(exponent))

    @property
    def speed_up(self) -> float:
        return self.plain_seconds / self.seconds


def simulate(
    machine: Machine, texts: Sequence[Text], noise: float = 0.0, draft_max: int = 8
) -> Simulation:
    """A chat of these replies on a machine that was measured before."""
    simulation = Simulation(AutoDraft(machine.cost_model()), machine, noise, draft_max)
    for text in texts:
        simulation.reply(text)
    return simulation
