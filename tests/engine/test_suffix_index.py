"""The suffix index against a search by brute force."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.copying.suffix_index import Match, SuffixIndex

MINIMUM = 3
texts = st.lists(st.integers(0, 3), max_size=60)


def brute_force(text: list[int], minimum: int = MINIMUM) -> Match | None:
    """The longest earlier occurrence of a suffix, the most recent one of that length."""
    for length in range(len(text) - 1, minimum - 1, -1):
        for end in range(len(text) - 1, length - 1, -1):
            if text[end - length : end] == text[len(text) - length :]:
                return Match(end, length)
    return None


@given(texts, st.integers(1, 5))
def test_every_prefix_has_the_match_that_a_search_finds(text: list[int], minimum: int) -> None:
    index = SuffixIndex(minimum)
    for length in range(1, len(text) + 1):
        index.extend(text[:length])
        assert index.longest_match() == brute_force(text[:length], minimum)


@given(texts, texts)
def test_an_edited_text_gives_what_a_new_index_gives(before: list[int], after: list[int]) -> None:
    edited = SuffixIndex(MINIMUM)
    edited.follow(before)
    edited.follow(after)
    assert edited.tokens == after
    assert edited.longest_match() == brute_force(after)


@given(texts, texts)
def test_a_continued_text_is_appended_to(before: list[int], rest: list[int]) -> None:
    index = SuffixIndex(MINIMUM)
    index.follow(before)
    index.follow(before + rest)
    assert index.longest_match() == brute_force(before + rest)


def test_a_shortened_text_forgets_what_was_cut() -> None:
    index = SuffixIndex(MINIMUM)
    index.follow([1, 2, 3, 9, 1, 2, 3])
    assert index.longest_match() == Match(3, 3)
    index.follow([1, 2, 3, 9])
    assert index.tokens == [1, 2, 3, 9] and index.longest_match() is None


def test_a_periodic_text_matches_itself_one_period_back() -> None:
    index = SuffixIndex(MINIMUM)
    index.follow([1, 2, 3, 4] * 500)
    assert index.longest_match() == Match(1996, 1996)


def test_a_long_text_is_indexed_to_its_end() -> None:
    generator = random.Random(5)
    text = [generator.randrange(1000) for _ in range(5000)]
    index = SuffixIndex(MINIMUM)
    index.follow([*text, *text[100:140]])
    assert index.longest_match() == Match(140, 40)
