"""A class of widths: what a pass is filled up to, and what that costs."""

from __future__ import annotations

import pytest

from engine.data.widths import WidthClass
from engine.measure.exact_cost import added_cost, filled_up, mean_seconds

GAPS = WidthClass((8, 12, 16))


def test_a_pass_is_filled_up_to_the_next_width() -> None:
    assert [GAPS.filled(rows) for rows in (1, 8, 9, 11, 12, 13, 16)] == [8, 8, 12, 12, 12, 16, 16]
    assert WidthClass((1,)).filled(1) == 1
    with pytest.raises(ValueError, match="17 rows"):
        GAPS.filled(17)


@pytest.mark.parametrize(
    ("widths", "filler"), [((1,), 0), ((2, 3, 4), 1), ((8, 12, 16), 7), ((2, 3, 12), 8)]
)
def test_the_most_filler_rows(widths: tuple[int, ...], filler: int) -> None:
    known = WidthClass(widths)
    assert known.most_filler == filler
    assert filler == max(known.filled(rows) - rows for rows in range(1, known.widest + 1))


def test_a_narrower_class_keeps_one_width() -> None:
    assert GAPS.up_to(13).widths == (8, 12)
    assert GAPS.up_to(3).widths == (8,)


@pytest.mark.parametrize("widths", [(), (0, 1), (2, 2), (3, 2)])
def test_what_is_no_class_is_refused(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no class of widths"):
        WidthClass(widths)


# What it costs

FLAT = {1: 0.080, 2: 0.089, 4: 0.103, 8: 0.124, 16: 0.163}
STEEP = {width: 0.03 * width for width in (1, 2, 4, 8, 16)}


def test_all_widths_cost_nothing() -> None:
    for passes in (FLAT, STEEP):
        assert added_cost(passes, WidthClass(tuple(passes))) == pytest.approx(0.0)


def test_plain_text_counts_in_full() -> None:
    """Where drafting pays nearly always, a filled one-row pass is rare, but plain text is not."""
    assert added_cost(FLAT, WidthClass((2, 4, 8, 16))) == pytest.approx(0.089 / 0.080 - 1.0)


def test_single_rows_cost_what_drafting_would_save() -> None:
    assert added_cost(FLAT, WidthClass((1,))) > 0.5
    assert added_cost(STEEP, WidthClass((1,))) == pytest.approx(0.0), "nothing pays there"


def test_the_class_that_costs_least_depends_on_the_passes() -> None:
    """Where wide passes are cheap the wide class wins, where they are not the narrow one."""
    narrow, wide = WidthClass((1, 2)), WidthClass((8, 16))
    assert mean_seconds(FLAT, wide) < mean_seconds(FLAT, WidthClass((1,)))
    assert mean_seconds(STEEP, narrow) < mean_seconds(STEEP, wide)


def test_the_table_of_filled_passes() -> None:
    assert filled_up(FLAT, WidthClass((2, 4))) == {1: 0.089, 2: 0.089, 3: 0.103, 4: 0.103}
