"""The n-gram drafter, and first(...)."""

from __future__ import annotations

from engine.drafters.base import Observation
from engine.drafters.copying.evidence import CopyConfidence, Evidence
from engine.drafters.ensembles.first import FirstDrafter
from engine.drafters.kinds.ngram import NgramDrafter
from engine.maths.proposal import EMPTY_PROPOSAL, Proposal
from tests.engine import scripted
from tests.engine.draft_rounds import AskedPolicy, draft_round
from tests.engine.scripted import ScriptedDrafter


def test_ngram_abstains_without_evidence() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 4, 1, 2])
    assert drafter.propose(draft_round([1, 2, 3, 4, 1, 2])) == EMPTY_PROPOSAL
    assert len(drafter.propose(draft_round([1, 2, 3, 4, 1, 2, 3]))) > 0


def test_ngram_copies_what_followed_the_match() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    drafter = NgramDrafter()
    drafter.begin(text)
    proposal = drafter.propose(draft_round(text, depth=4))
    assert proposal == Proposal.chain([1, 2, 3, 4], "ngram")


def test_ngram_goes_round_in_a_repetition() -> None:
    text = [5, 6] * 10
    drafter = NgramDrafter()
    drafter.begin(text)
    assert drafter.propose(draft_round(text, depth=9)).tokens == (5, 6, 5, 6, 5, 6, 5, 6, 5)


def test_ngram_asks_before_every_token_and_stops_when_told() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 7, 8, 9]
    drafter = NgramDrafter()
    drafter.begin(text)
    policy = AskedPolicy(stop=3)
    assert drafter.propose(draft_round(text, policy=policy)).tokens == (1, 2)
    assert [depth for depth, _ in policy.asked] == [1, 2, 3]
    assert all(0.0 < confidence < 1.0 for _, confidence in policy.asked)
    assert drafter.propose(draft_round(text, policy=AskedPolicy(start=False))) == EMPTY_PROPOSAL


def test_ngram_forgets_a_chat_that_was_edited() -> None:
    drafter = NgramDrafter()
    drafter.begin([7, 8, 9, 1, 2, 3, 7, 8, 9])
    edited = [4, 4, 1, 5, 7, 8, 9]
    drafter.begin(edited)
    assert drafter.propose(draft_round(edited)) == EMPTY_PROPOSAL


def test_ngram_confidence_follows_what_was_kept() -> None:
    confidence = CopyConfidence()
    short, long, other = Evidence(5, 1, 1), Evidence(20, 1, 1), Evidence(3, 1, 1)
    before = confidence.estimate(short)
    for _ in range(50):
        confidence.learn(short, kept=False)
        confidence.learn(long, kept=True)
    assert confidence.estimate(short) < 0.1 < before
    assert confidence.estimate(long) > 0.95
    confidence.begin_text()
    assert confidence.estimate(other) == CopyConfidence().estimate(other)


def test_a_text_that_quotes_is_copied_from_more_readily() -> None:
    confidence = CopyConfidence()
    seen, other = Evidence(5, 1, 1), Evidence(3, 1, 1)
    usual = confidence.estimate(other)
    for kept in (True, False):
        confidence.begin_text()
        for _ in range(12):
            confidence.learn(seen, kept)
        assert (confidence.estimate(other) > usual) == kept


def test_what_was_not_used_is_learned_from_too() -> None:
    """In a round without a draft of its own, the lookup still sees whether it was right."""
    text = [7, 8, 9, 1, 2, 3, 4, 7, 8, 9]
    for emitted in (1, 5):
        drafter = NgramDrafter()
        drafter.begin(text)
        refusal = AskedPolicy(stop=1)
        assert len(drafter.propose(draft_round(text, policy=refusal))) == 0
        drafter.observe(Observation(EMPTY_PROPOSAL, (), (emitted,)))
        again = AskedPolicy(stop=1)
        drafter.propose(draft_round(text, policy=again))
        assert (again.asked[0][1] > refusal.asked[0][1]) == (emitted == 1)


def test_ngram_learns_once_from_each_draft() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 7, 8, 9]
    drafter = NgramDrafter()
    drafter.begin(text)

    def first_confidence() -> float:
        policy = AskedPolicy()
        drafter.propose(draft_round(text, policy=policy))
        return policy.asked[0][1]

    before = first_confidence()
    drafter.observe(Observation(Proposal.chain([1, 2], "ngram"), (), (5,)))
    after = first_confidence()
    assert after < before
    drafter.observe(Observation(Proposal.chain([9], "other"), (), (5,)))
    drafter.observe(Observation(Proposal.chain([9], "other"), (), (5,)))
    assert first_confidence() < after  # the draft just made, not the rounds of others
    before = first_confidence()
    drafter.observe(Observation(Proposal.chain([9, 2], "other"), (0, 1), (1, 2, 5)))
    assert first_confidence() > before


def test_first_takes_the_first_member_that_proposes() -> None:
    oracle = scripted.toy_oracle()
    silent = ScriptedDrafter(scripted.empty, "silent", max_leaves=1)
    wrong = ScriptedDrafter(scripted.wrong(oracle), "wrong", max_leaves=1)
    right = ScriptedDrafter(scripted.right(oracle), "right", max_leaves=3)
    drafter = FirstDrafter([silent, wrong, right])
    assert drafter.name == "first(silent,wrong,right)" and drafter.max_leaves == 3
    drafter.begin([1, 2, 3])
    assert silent.begun == wrong.begun == right.begun == [[1, 2, 3]]
    context = [1, 2, 3]
    assert drafter.propose(draft_round(context)).tokens == scripted.wrong(oracle)(context, 4).tokens
    assert right.contexts == []
    drafter.observe(Observation(EMPTY_PROPOSAL, (), (4,)))
    assert len(silent.observed) == len(wrong.observed) == len(right.observed) == 1
    drafter.close()
    assert silent.closed == wrong.closed == right.closed == 1
