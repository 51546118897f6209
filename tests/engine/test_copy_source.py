"""Where a lookup says that it read what it proposes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.data.rounds import CopySource
from engine.drafters.base import DraftRound
from engine.drafters.copying.earlier import EarlierTexts
from engine.drafters.ensembles.tree import TreeDrafter
from engine.drafters.kinds.ngram import MINIMUM_MATCH, NgramDrafter
from tests.engine.draft_rounds import draft_round

Told = dict[tuple[str, tuple[int, ...]], CopySource]


def asked(context: list[int]) -> tuple[DraftRound, Told]:
    told: Told = {}

    def note(drafter: str, path: tuple[int, ...], source: CopySource) -> None:
        told[drafter, path] = source

    return replace(draft_round(context), copied=note), told


def earlier(*texts: str) -> EarlierTexts:
    held = EarlierTexts(lambda text: [ord(one) for one in text], MINIMUM_MATCH)
    held.follow(texts)
    return held


@given(st.lists(st.integers(0, 3), min_size=4, max_size=60))
def test_every_token_stands_where_it_is_said_to_come_from(text: list[int]) -> None:
    round_, told = asked(text)
    drafter = NgramDrafter()
    drafter.begin(text)
    tokens = drafter.propose(round_).tokens
    for depth in range(len(tokens)):
        source = told["ngram", tokens[: depth + 1]]
        assert source.text is None
        assert source.place < len(text)
        assert text[source.place] == tokens[depth]


def test_a_draft_is_read_on_from_where_it_began() -> None:
    text = [5, 5, 7, 8, 9, 1, 2, 3, 4, 6, 7, 8, 9]
    round_, told = asked(text)
    drafter = NgramDrafter()
    drafter.begin(text)
    assert drafter.propose(round_).tokens == (1, 2, 3, 4)
    assert [source.place for source in told.values()] == [5, 6, 7, 8]


def test_a_trimmed_chat_has_its_own_places() -> None:
    drafter = NgramDrafter()
    drafter.begin([0, 0, 0, 7, 8, 9, 1, 2, 7, 8, 9])
    trimmed = [7, 8, 9, 1, 2, 7, 8, 9]
    drafter.begin(trimmed)
    round_, told = asked(trimmed)
    assert drafter.propose(round_).tokens[0] == 1
    assert told["ngram", (1,)] == CopySource(None, 3)


def test_an_earlier_text_is_named_by_its_number() -> None:
    drafter = NgramDrafter(earlier("nothing here", "say abcdef", "other"))
    context = [ord(one) for one in "?abc"]
    drafter.begin(context)
    round_, told = asked(context)
    assert drafter.propose(round_).tokens == tuple(map(ord, "def"))
    assert [(source.text, source.place) for source in told.values()] == [(1, 7), (1, 8), (1, 9)]


def test_of_several_places_the_last_one_is_told() -> None:
    drafter = NgramDrafter(earlier("abcX", "zabcX", "abcX!", "abcY"))
    context = [ord(one) for one in "abc"]
    drafter.begin(context)
    round_, told = asked(context)
    drafter.propose(round_)
    assert told["ngram", (ord("X"),)] == CopySource(2, 3)


def test_a_tree_proposes_under_its_own_name() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 7, 8, 9]
    tree = TreeDrafter(NgramDrafter())
    tree.begin(text)
    round_, told = asked(text)
    proposal = tree.propose(round_)
    assert told[tree.name, proposal.tokens[:1]] == CopySource(None, 3)
