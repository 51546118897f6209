"""The constants of automatic drafting: all in one object, each read, each near its best."""

from __future__ import annotations

import ast
import dataclasses
import statistics
from pathlib import Path

import pytest

from engine.control.acceptance_estimator import BINS
from engine.control.tuning import TUNING
from tests.architecture_rules import Module, read_modules
from tests.engine.sensitivity import SETTINGS, Effect, names, speed_ups, value_of, varied
from tests.engine.simulated_pair import Text

ROOT = Path(__file__).parents[2]

STRUCTURE = {
    "acceptance_estimator": {"EDGES", "BINS", "DEPTHS", "_CENTRES"},  # bins of stored tables
    "draft_plan": {"_LOG_STEP", "_CELLS", "_PATHS"},  # cells of a table
    "advice": {"LENGTHS"},  # rows that are shown
    "drafting_memory": {"_VERSION"},  # of the stored format
    "speed_record": {"_OLD_REPLY", "_FURTHEST", "_TINY"},  # of the stored format; zero
    "payoff": {  # when a figure is told, and what is said of it
        *("FEWEST_ROUNDS", "FEWEST_TOKENS", "_LEAST_DOUBT", "_MOST_OTHER", "_FEW_DRAFTS"),
    },
    "speedup": {"HURTS", "_WIDEST", "_NORMAL", "_POWER", "_FEW_DEGREES"},  # words; statistics
}
"""Numbers that are no choice to be measured, beside their use."""


def control_modules() -> list[Module]:
    modules = read_modules(ROOT, ["engine/control"])
    return [module for module in modules if not module.name.endswith(".tuning")]


def numbers_of(module: Module) -> set[str]:
    """The module's constants whose value has a number in it."""
    return {
        target.id
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        and any(
            isinstance(part, ast.Constant) and isinstance(part.value, int | float)
            for part in ast.walk(node.value)
        )
    }


def test_every_number_that_is_a_choice_is_in_the_tuning() -> None:
    for module in control_modules():
        name = module.name.rpartition(".")[2]
        assert numbers_of(module) <= STRUCTURE.get(name, set()), module.name


def test_every_constant_is_read() -> None:
    read = {
        node.attr
        for module in control_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
    }
    groups = [getattr(TUNING, group.name) for group in dataclasses.fields(TUNING)]
    assert {one.name for group in groups for one in dataclasses.fields(group)} <= read


def test_the_usual_confidences_are_a_distribution_over_the_bins() -> None:
    assert len(TUNING.history.typical) == BINS
    assert sum(TUNING.history.typical) == pytest.approx(1.0)


@pytest.mark.parametrize("name", list(names()))
def test_a_constant_can_be_halved_and_doubled(name: str) -> None:
    """What the simulation of each does; text is drafted with every one of them."""
    setting = dataclasses.replace(SETTINGS["memory-bound"], chat=_short)
    for factor in (0.5, 2.0):
        assert value_of(varied(name, factor), name) != value_of(TUNING, name)
        assert setting.speed_up(varied(name, factor), seed=0) > 1.0


def _short(seed: int) -> list[Text]:
    return [Text.of(0.9, 64, seed + number) for number in range(2)]


@pytest.mark.slow
def test_no_constant_is_clearly_better_halved_or_doubled() -> None:
    usual = speed_ups(TUNING)
    mean = statistics.geometric_mean(usual.values())
    better = {}
    for name in names():
        for factor in (0.5, 2.0):
            gain = Effect.of(varied(name, factor), usual).mean / mean - 1.0
            if gain > 0.01:
                better[name, factor] = gain
    assert not better
