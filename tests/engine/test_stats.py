"""One definition per metric, on rounds counted by hand."""

from __future__ import annotations

import json

import pytest

from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace, TokenKind
from engine.data.stats import DrafterCount, Stats, StatsCounter

SECONDS = RoundSeconds(draft=0.25, target=1.0, other=0.125)


def chain_round(proposed: int, accepted: int, drafter: str = "model") -> RoundTrace:
    """A round of `proposed` tokens in a chain of which the first `accepted` are kept."""
    nodes = tuple(
        ProposedToken(7, "x", index - 1, index + 1, drafter, 0.5, None, index < accepted)
        for index in range(proposed)
    )
    last: TokenKind = "plain" if not proposed else "bonus" if accepted == proposed else "correction"
    kept = [EmittedToken(7, "x", "accepted", drafter, 0.5, None, i + 1) for i in range(accepted)]
    final = EmittedToken(8, "y", last, None, 0.5, None, None)
    return RoundTrace(0, 0, nodes, (*kept, final), SECONDS, parked=not proposed)


def counted(*traces: RoundTrace, prefill_seconds: float = 0.0) -> Stats:
    counter = StatsCounter(prefill_seconds)
    for trace in traces:
        counter.add(trace)
    return counter.snapshot()


def test_the_figures_of_three_rounds() -> None:
    stats = counted(chain_round(4, 4), chain_round(4, 0), chain_round(4, 2), prefill_seconds=2.0)
    assert (stats.rounds, stats.emitted, stats.parked_rounds) == (3, 9, 0)
    assert (stats.proposed, stats.accepted) == (12, 6)
    assert stats.acceptance_rate == 0.5
    assert stats.mean_accepted_length == 3.0
    assert stats.proposed_by_position == (3, 3, 3, 3)
    assert stats.accepted_by_position == (2, 2, 1, 1)
    assert stats.by_drafter == {"model": DrafterCount(12, 6)}
    assert (stats.draft_seconds, stats.target_seconds, stats.overhead_seconds) == (0.75, 3.0, 0.375)
    assert stats.decode_seconds == 4.125
    assert stats.prefill_seconds == 2.0
    assert stats.tokens_per_second == pytest.approx(9 / 4.125)


def test_plain_rounds_have_no_acceptance_rate() -> None:
    stats = counted(chain_round(0, 0), chain_round(0, 0))
    assert stats.acceptance_rate is None
    assert stats.mean_accepted_length == 1.0
    assert (stats.parked_rounds, stats.proposed) == (2, 0)
    assert stats.proposed_by_position == ()


def test_nothing_counted_yet_has_no_rates() -> None:
    stats = StatsCounter().snapshot()
    assert stats == Stats()
    assert stats.acceptance_rate is None
    assert stats.mean_accepted_length is None
    assert stats.tokens_per_second is None


def test_drafts_of_different_length_and_drafter_add_up() -> None:
    stats = counted(chain_round(1, 1, "ngram"), chain_round(3, 2), chain_round(0, 0))
    assert stats.proposed_by_position == (2, 1, 1)
    assert stats.accepted_by_position == (2, 1, 0)
    assert stats.by_drafter == {"ngram": DrafterCount(1, 1), "model": DrafterCount(3, 2)}
    assert stats.emitted == 2 + 3 + 1


def test_a_tree_counts_each_depth_once_and_every_node_for_its_drafter() -> None:
    nodes = (
        ProposedToken(1, "a", -1, 1, "model", 0.5, None, False),
        ProposedToken(2, "b", -1, 1, "ngram", 0.5, None, True),
        ProposedToken(3, "c", 1, 2, "model", 0.5, None, False),
        ProposedToken(4, "d", 1, 2, "model", 0.5, None, False),
    )
    emitted = (
        EmittedToken(2, "b", "accepted", "ngram", 0.5, None, 1),
        EmittedToken(5, "e", "correction", None, 0.5, None, None),
    )
    stats = counted(RoundTrace(0, 0, nodes, emitted, SECONDS, parked=False))
    assert (stats.proposed, stats.accepted) == (2, 1)
    assert stats.proposed_by_position == (1, 1)
    assert stats.accepted_by_position == (1, 0)
    assert stats.by_drafter == {"model": DrafterCount(3, 0), "ngram": DrafterCount(1, 1)}


def test_a_snapshot_does_not_change_later() -> None:
    counter = StatsCounter()
    counter.add(chain_round(2, 1))
    before = counter.snapshot()
    counter.add(chain_round(2, 2))
    assert (before.rounds, before.proposed, before.by_drafter["model"].proposed) == (1, 2, 2)
    assert counter.snapshot().rounds == 2


def test_the_json_object_has_the_published_keys() -> None:
    stats = json.loads(json.dumps(counted(chain_round(2, 1)).to_json()))
    assert list(stats) == [
        "emitted",
        "rounds",
        "parked_rounds",
        "proposed",
        "accepted",
        "acceptance_rate",
        "mean_accepted_length",
        "proposed_by_position",
        "accepted_by_position",
        "by_drafter",
        "prefill_seconds",
        "decode_seconds",
        "target_seconds",
        "draft_seconds",
        "overhead_seconds",
        "tokens_per_second",
    ]
    assert stats["by_drafter"] == {"model": {"proposed": 2, "accepted": 1}}
    assert stats["proposed_by_position"] == [1, 1]
    assert json.loads(json.dumps(Stats().to_json()))["acceptance_rate"] is None


def test_two_parts_add_up_to_the_whole_and_come_back_from_json() -> None:
    rounds = (chain_round(4, 4), chain_round(2, 0, "ngram"), chain_round(0, 0), chain_round(5, 2))
    whole = counted(*rounds, prefill_seconds=3.0)
    for cut in range(len(rounds) + 1):
        first = counted(*rounds[:cut], prefill_seconds=2.0)
        second = counted(*rounds[cut:], prefill_seconds=1.0)
        assert first + second == whole
        kept = Stats.from_json(json.loads(json.dumps(first.to_json())))
        assert (kept + second).to_json() == whole.to_json()
