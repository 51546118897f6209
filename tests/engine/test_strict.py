"""Classes of widths are found exactly, on contexts whose classes are known."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.proposal import ROOT, Proposal
from engine.measure.exact_widths import WIDTHS, ExactWidths, Trial, find_classes, try_widths
from tests.engine.conftest import THREADS
from tests.tiny_gguf import write_tiny_gguf

TOKENS = list(range(100, 800))


class ScriptedContext:
    """Its rows carry the rounding of the kernel that computed them, and of those before them.

    kernels: by width, one name for all rows or one for each place. deep: other kernels from 500
    cached tokens on. branches: whether a tree's rows are a chain's.
    """

    def __init__(
        self,
        kernels: dict[int, Sequence[str]],
        deep: dict[int, Sequence[str]] | None = None,
        *,
        branches: bool = True,
    ) -> None:
        self.tokens: list[int] = []
        self._cells: list[int] = []
        self._known: dict[object, int] = {}  # what a row was made of, to its number
        self._kernels, self._deep = kernels, deep or kernels
        self._branches = branches

    def stand_at(self, depth: int) -> Sequence[int]:
        self.tokens = TOKENS[:depth]
        self._cells = list(self.tokens)
        return TOKENS[depth:]

    def _row(self, cells: list[int], token: int, kernel: str) -> int:
        made_of = (tuple(cells), token, kernel)
        cells.append(self._known.setdefault(made_of, 1000 + len(self._known)))
        return cells[-1]

    def _kernel(self, width: int, place: int) -> str:
        names = (self._deep if len(self.tokens) >= 500 else self._kernels)[width]
        return names if isinstance(names, str) else names[place]

    def extend(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        width = len(tokens)
        rows = [
            self._row(self._cells, token, self._kernel(width, place))
            for place, token in enumerate(tokens)
        ]
        self.tokens.extend(tokens)
        return np.array(rows, np.float32).reshape(width, 1)

    def verify(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]:
        width = 1 + len(proposal)
        root = list(self._cells)
        rows = [self._row(root, last_token, self._kernel(width, 0))]
        below: list[list[int]] = []
        for place, (token, parent) in enumerate(
            zip(proposal.tokens, proposal.parents, strict=True), start=1
        ):
            cells = list(root if parent == ROOT else below[parent])
            kernel = self._kernel(width, place) + ("" if self._branches else " shifted")
            rows.append(self._row(cells, token, kernel))
            below.append(cells)
        return np.array(rows, np.float32).reshape(width, 1)

    def keep_path(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None:
        assert not path
        self.extend([last_token])

    def truncate(self, length: int) -> None:
        del self.tokens[length:], self._cells[length:]

    def classes(self) -> tuple[ExactWidths, ...]:
        return find_classes(self, self.stand_at, WIDTHS)


def found(context: ScriptedContext) -> list[tuple[int, ...]]:
    return [one.widths.widths for one in context.classes()]


def test_every_width_in_one_class() -> None:
    context = ScriptedContext(dict.fromkeys(WIDTHS, "one"))
    assert found(context) == [WIDTHS]
    assert context.tokens == TOKENS[:24]


def test_single_rows_apart_from_all_others() -> None:
    context = ScriptedContext({width: "many" if width > 1 else "one" for width in WIDTHS})
    assert found(context) == [(1,), WIDTHS[1:]]


def test_classes_with_gaps_and_widths_in_none() -> None:
    """Groups of four rows by one kernel and the rest by another: 5 to 7 depend on the place."""
    kernels: dict[int, Sequence[str]] = {
        width: ["four"] * (width - width % 4) + ["rest"] * (width % 4) for width in WIDTHS
    }
    kernels |= {1: "one", 2: "two", 3: "two", 4: "few"}
    assert found(ScriptedContext(kernels)) == [(1,), (2, 3), (4,), (8, 12, 16)]


def test_one_row_alone_where_nothing_agrees() -> None:
    kernels: dict[int, Sequence[str]] = {
        width: [f"{width} at {place}" for place in range(width)] for width in WIDTHS
    }
    assert found(ScriptedContext(kernels)) == [(1,)]


def test_what_agrees_after_few_tokens_may_not_after_many() -> None:
    shallow = dict.fromkeys(WIDTHS, "one")
    deep: dict[int, Sequence[str]] = {w: "narrow" if w < 8 else "wide" for w in WIDTHS}
    for kernels in ((shallow, deep), (deep, shallow)):
        classes = found(ScriptedContext(*kernels))
        assert classes == [tuple(w for w in WIDTHS if w < 8), tuple(w for w in WIDTHS if w >= 8)]


def test_a_place_that_matters_only_at_one_depth_counts() -> None:
    same = dict.fromkeys(WIDTHS, "one")
    odd = same | {6: ["one"] * 5 + ["other"]}
    for kernels in ((same, odd), (odd, same)):
        assert found(ScriptedContext(*kernels)) == [tuple(w for w in WIDTHS if w != 6)]


@pytest.mark.parametrize("odd", [4, 16])
def test_one_row_that_differs_is_seen(odd: int) -> None:
    """Its first row; a later one differs by its place."""
    kernels: dict[int, Sequence[str]] = dict.fromkeys(WIDTHS, "one")
    kernels |= {odd: "other"}
    assert found(ScriptedContext(kernels)) == sorted([tuple(w for w in WIDTHS if w != odd), (odd,)])


def test_branches_that_change_rows_are_told() -> None:
    kernels: dict[int, Sequence[str]] = {w: "narrow" if w < 3 else "wide" for w in WIDTHS}
    classes = ScriptedContext(kernels, branches=False).classes()
    assert [one.branches for one in classes] == [True, False], "two rows cannot branch"
    assert all(one.branches for one in ScriptedContext(kernels).classes())


def test_a_trial_survives_the_file() -> None:
    kernels: dict[int, Sequence[str]] = {w: "narrow" if w < 3 else "wide" for w in WIDTHS}
    trial = Trial(ScriptedContext(kernels).classes(), {width: 0.1 * width for width in WIDTHS})
    assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"classes": [], "seconds": {}},
        {"classes": [{"widths": [2, 1], "branches": True}], "seconds": {"1": 1.0, "2": 1.0}},
        {"classes": [{"widths": [1, 2], "branches": True}], "seconds": {"1": 1.0}},
        {"classes": [{"widths": [1], "branches": True}], "seconds": {"1": 0.0}},
        {"classes": [{"widths": [2], "branches": True}], "seconds": {"2": 1.0}},
    ],
)
def test_what_is_no_trial_is_refused(content: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        Trial.from_json(content)


@pytest.mark.parametrize("flash_attention", [True, False])
def test_classes_of_a_real_target_are_apart_and_begin_with_one(
    tmp_path_factory: pytest.TempPathFactory, library: Library, flash_attention: bool
) -> None:
    path = write_tiny_gguf(tmp_path_factory.mktemp("target") / "tiny.gguf", layers=2)
    with Model(path, ModelOptions(), library.log) as model:
        trial = try_widths(model, 1, AbortFlag(), flash_attention=flash_attention)
    widths = list(itertools.chain(*(one.widths.widths for one in trial.classes)))
    assert 1 in widths and len(widths) == len(set(widths)) and set(widths) <= set(WIDTHS)
    assert set(trial.seconds) >= set(widths)


@pytest.mark.model
@pytest.mark.parametrize("flash_attention", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_classes_of_the_starter_hold_for_many_rows(starter: Model, flash_attention: bool) -> None:
    """Weights with few bits hide most differences from the logits: those of a class must agree
    wherever else they are tried, row after row."""
    trial = try_widths(starter, THREADS, AbortFlag(), flash_attention=flash_attention)
    generator = np.random.default_rng(5)
    tokens = [int(token) for token in generator.integers(100, 20_000, 400)]
    options = ContextOptions(512, 16, THREADS, flash_attention=flash_attention)
    with Context(starter, options, AbortFlag()) as context:
        for depth in (31, 250, 320):
            for one in trial.classes:
                widths = one.widths.widths
                texts = [
                    rows_of(context, tokens, depth, width) for width in {widths[0], widths[-1]}
                ]
                for rows in texts:
                    np.testing.assert_array_equal(rows, texts[0])


def rows_of(context: Context, tokens: list[int], depth: int, width: int) -> NDArray[np.float32]:
    """Logits of 32 tokens in passes of one width, after so many others."""
    context.clear()
    context.feed(tokens[:depth])
    rows = []
    for start in range(depth, depth + 32, width):
        rows.append(context.extend(tokens[start : start + width]).copy())
    return np.concatenate(rows)[:32]
