"""What passes and draft steps cost, and how that is learned from rounds."""

from __future__ import annotations

import pytest

from engine.control.cost import CostModel
from engine.data.draft_cost import DraftCost


def test_pass_times_between_and_beyond_measured_widths() -> None:
    cost = CostModel({1: 1.0, 2: 1.5, 4: 3.5, 8: 4.5})
    assert [cost.pass_seconds(n) for n in (1, 2, 3, 4, 6, 8)] == [1.0, 1.5, 2.5, 3.5, 4.0, 4.5]
    assert cost.pass_seconds(15) == pytest.approx(4.5 + 7 * 3.5 / 7)
    assert CostModel({1: 2.0}).pass_seconds(3) == pytest.approx(6.0)


def test_a_cost_model_needs_the_time_of_a_plain_pass() -> None:
    with pytest.raises(ValueError, match=r"T\(1\)"):
        CostModel({2: 1.0})


def test_passes_take_longer_after_more_text() -> None:
    cost = CostModel({1: 1.0, 4: 2.0}, seconds_per_cached={1: 0.001, 4: 0.004})
    cost.move_to(1000)
    assert cost.pass_seconds(1) == pytest.approx(2.0)
    assert cost.pass_seconds(4) == pytest.approx(6.0)


def test_a_slower_machine_is_slower_at_every_width() -> None:
    cost = CostModel({1: 1.0, 4: 2.0}, drafters={"m": DraftCost(0.5)})
    cost.learn_pass(1, 100.0)
    assert cost.pass_seconds(1) < 1.25
    for _ in range(100):
        cost.learn_pass(1, 2.0)
    assert cost.pass_seconds(1) == pytest.approx(2.0, rel=0.02)
    assert cost.pass_seconds(4) == pytest.approx(4.0, rel=0.15)
    assert cost.draft_seconds("m") == pytest.approx(1.0, rel=0.15)
    assert not cost.has_drifted


def test_plain_passes_of_late_are_known_before_the_table_follows() -> None:
    """Memory that others use slows passes over one token by themselves."""
    cost = CostModel({1: 1.0, 4: 2.0})
    for _ in range(40):
        cost.learn_pass(1, 1.3)
        cost.learn_pass(4, 2.0)
    assert cost.recent_seconds(1) == pytest.approx(1.3, rel=0.05)
    assert cost.recent_seconds(4) == cost.pass_seconds(4)
    assert cost.pass_seconds(1) < 1.25


def test_a_width_that_was_measured_wrongly_is_found_out() -> None:
    cost = CostModel({1: 1.0, 2: 1.1, 3: 1.2})
    for _ in range(250):
        cost.learn_pass(1, 1.0)
        cost.learn_pass(3, 2.4)
    assert cost.pass_seconds(3) / cost.pass_seconds(1) == pytest.approx(2.4, rel=0.2)
    assert cost.has_drifted


def test_draft_times_are_kept_per_drafter() -> None:
    cost = CostModel({1: 1.0})
    assert cost.draft_seconds("a") == 0.0
    cost.learn_draft("a", 1.0, steps=2, behind=0)
    assert (cost.draft_seconds("a"), cost.draft_seconds("b")) == (0.5, 0.0)
    cost.learn_draft("a", 10.5, steps=1, behind=100)
    assert cost.token_seconds("a") == pytest.approx(0.1)
    assert cost.draft_seconds("a") == 0.5
