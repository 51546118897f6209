"""Fast or strict, and which class, layout and attention: chosen by what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.data.request import LoadRequest, Numerics
from engine.data.widths import WidthClass
from engine.drafters.base import Drafter
from engine.drafters.build_context import BuildContext
from engine.drafters.kind import DrafterPlan
from engine.drafters.parse import parse_expression
from engine.files.gguf import inspect
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.measure.exact_widths import ExactWidths, Trial
from engine.models.locate import LocatedModel
from engine.serving.numerics import ExactSetup, NumericsChoice
from engine.serving.plan import LoadPlan, Report
from engine.serving.tuning import Setup
from tests.tiny_gguf import write_tiny_gguf

FLAT = {1: 0.080, 2: 0.083, 4: 0.090, 8: 0.110, 16: 0.150}
"""A filled one-row pass costs 4 % here."""
JUMP = {1: 0.010, 2: 0.018, 4: 0.024, 8: 0.040, 16: 0.070}
USUAL = Setup(2)


def trial(seconds: Mapping[int, float], *classes: tuple[int, ...], branches: bool = True) -> Trial:
    return Trial(tuple(ExactWidths(WidthClass(one), branches) for one in classes), seconds)


ALL, APART = (1, 2, 4, 8, 16), ((1,), (2, 4, 8, 16))


@dataclass
class Measured:
    """trials: by repack and plain attention. share: of plain attention in the fused one's time."""

    trials: dict[tuple[bool, bool], Trial]
    share: float | None = None
    tried: list[Setup] = field(default_factory=list)

    def attention_ratio(
        self, plan: LoadPlan, setup: Setup, model: Model, report: Report
    ) -> float | None:
        return self.share

    def known_widths(self, plan: LoadPlan, setup: Setup) -> Trial | None:
        return None

    def try_widths(self, plan: LoadPlan, setup: Setup, model: Model, report: Report) -> Trial:
        assert model.options.repack == setup.repack
        self.tried.append(setup)
        return self.trials[setup.repack, setup.plain_attention]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("target") / "tiny.gguf", layers=1)


def _plan(drafter: str) -> DrafterPlan:
    def refuse(build: BuildContext) -> Drafter:
        raise AssertionError("nothing is opened here")

    return DrafterPlan(
        parse_expression(drafter), refuse, may_branch=drafter.startswith(("tree", "union"))
    )


class Chooser:
    """quant: what the file says of its weights. window: of its sliding attention."""

    def __init__(self, library: Library, target: Path) -> None:
        self._library, self._target = library, target

    def choose(
        self,
        measured: Measured,
        numerics: Numerics,
        drafter: str | None = "ngram",
        quant: str = "Q4_K",
        window: int = 0,
    ) -> ExactSetup | None:
        info = replace(inspect(self._target), quant=quant, sliding_window=window)
        plan = LoadPlan(
            request=LoadRequest(str(self._target), drafter, numerics=numerics),
            target=LocatedModel("tiny", "tiny", self._target),
            info=info,
            drafter=_plan(drafter) if drafter else None,
            context_length=256,
            threads=2,
            notices=(),
            files=(),
        )
        opened: list[Model] = []

        def open_target(repack: bool) -> Model:
            opened.append(Model(self._target, ModelOptions(0, repack), self._library.log))
            return opened[-1]

        try:
            return NumericsChoice(measured, open_target, lambda _label, _share: None).choose(
                plan, USUAL
            )
        finally:
            for model in opened:
                model.close()


@pytest.fixture
def chooser(library: Library, target: Path) -> Chooser:
    return Chooser(library, target)


def test_fast_numerics_try_nothing(chooser: Chooser) -> None:
    measured = Measured({})
    assert chooser.choose(measured, "fast") is None and measured.tried == []


@pytest.mark.parametrize("drafter", [None, "ngram", "model:x", "union(ngram,model:x)"])
def test_auto_is_strict_where_it_costs_little_whatever_drafts(
    chooser: Chooser, drafter: str | None
) -> None:
    for classes in ((ALL,), APART):
        measured = Measured({(True, False): trial(FLAT, *classes)}, share=1.2)
        exact = chooser.choose(measured, "auto", drafter)
        assert exact is not None and exact.widths.widths == classes[-1]
        assert exact.setup == USUAL == measured.tried[0] and len(measured.tried) == 1


def test_auto_is_fast_where_strict_would_cost(chooser: Chooser) -> None:
    measured = Measured({(True, False): trial(JUMP, *APART)})
    assert chooser.choose(measured, "auto") is None
    assert measured.tried == [USUAL], "other layouts are slower ones"


def test_auto_never_takes_a_class_in_which_nothing_can_be_drafted(chooser: Chooser) -> None:
    steep = {width: 0.05 * width for width in FLAT}
    assert chooser.choose(Measured({(True, False): trial(steep, (1,))}), "auto") is None


def test_other_attention_counts_with_what_it_costs(chooser: Chooser) -> None:
    both = {(True, False): trial(JUMP, *APART), (True, True): trial(JUMP, ALL)}
    exact = chooser.choose(Measured(both, share=1.02), "auto")
    assert exact is not None and exact.setup.plain_attention and exact.widths.widths == ALL
    assert exact.added == pytest.approx(0.02)
    measured = Measured(both, share=1.3)
    assert chooser.choose(measured, "auto") is None
    assert measured.tried == [USUAL], "attention that costs more is not tried"


def test_trees_rule_out_what_their_branches_change(chooser: Chooser) -> None:
    both = {
        (True, False): trial(JUMP, *APART),
        (True, True): trial(JUMP, ALL, branches=False),
    }
    measured = Measured(both, share=1.0)
    exact = chooser.choose(measured, "auto", "ngram")
    assert exact is not None and exact.setup.plain_attention
    assert chooser.choose(measured, "auto", "tree(model:x)") is None
    strict = chooser.choose(
        Measured(both | {(False, a): t for (_, a), t in both.items()}, share=1.0),
        "strict",
        "tree(model:x)",
    )
    assert strict is not None and not strict.setup.plain_attention


def test_strict_takes_the_layout_and_class_that_cost_least(chooser: Chooser) -> None:
    slow = {width: 1.5 * seconds for width, seconds in JUMP.items()}
    repacked = trial(slow, (1,), (8, 16))
    other = trial(JUMP, (1,), (2, 4), (8, 16))
    measured = Measured({(True, False): repacked, (False, False): other})
    exact = chooser.choose(measured, "strict")
    assert exact is not None and not exact.setup.repack and exact.widths.widths == (2, 4)
    assert exact.added > 0.5
    assert chooser.choose(measured, "strict", None) == exact, "the same without a drafter"


def test_strict_stops_trying_when_a_class_costs_next_to_nothing(chooser: Chooser) -> None:
    measured = Measured({(True, False): trial(FLAT, ALL)}, share=0.99)
    assert chooser.choose(measured, "strict") == ExactSetup(USUAL, WidthClass(ALL), 0.0)
    assert measured.tried == [USUAL]


def test_float_weights_have_one_layout(chooser: Chooser) -> None:
    measured = Measured({(True, False): trial(JUMP, *APART)})
    exact = chooser.choose(measured, "strict", quant="BF16")
    assert exact is not None and measured.tried == [USUAL]


def test_single_rows_are_the_last_resort_of_strict(chooser: Chooser) -> None:
    both = {(True, False): trial(JUMP, (1,)), (False, False): trial(JUMP, (1,))}
    exact = chooser.choose(Measured(both), "strict")
    assert exact is not None and exact.widths.widths == (1,)


def test_strict_never_ends_as_fast(chooser: Chooser) -> None:
    """Where every class has branches that change rows, single rows are left."""
    layouts = {(repack, False): trial(JUMP, ALL, branches=False) for repack in (True, False)}
    exact = chooser.choose(Measured(layouts), "strict", "tree(model:x)")
    assert exact is not None and exact.widths.widths == (1,)


def test_sliding_windows_are_strict_only_where_memory_was_planned_for_it(chooser: Chooser) -> None:
    measured = Measured({(True, False): trial(FLAT, ALL)})
    assert chooser.choose(measured, "auto", window=512) is None
    assert chooser.choose(measured, "strict", window=512) is not None
    assert chooser.choose(measured, "auto", "union(ngram,model:x)", window=512) is not None
