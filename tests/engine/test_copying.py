"""What n-gram drafts are made of: counts of what followed, earlier texts, evidence and its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.control.controller import AlwaysDraft
from engine.data.events import Finished, RunEvent
from engine.data.folders import DataFolder
from engine.data.request import DraftParams, GenerateRequest, LoadRequest, SamplingParams
from engine.drafters.base import DraftRound, Observation
from engine.drafters.copying.earlier import LONGEST_MATCH, EarlierIndex, EarlierTexts
from engine.drafters.copying.evidence import CopyConfidence, Evidence
from engine.drafters.copying.suffix_index import SuffixIndex
from engine.drafters.ensembles.tree import TreeDrafter
from engine.drafters.kinds.ngram import NgramDrafter
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.maths.proposal import EMPTY_PROPOSAL, Proposal
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from engine.serving.session import Session
from tests.engine.conftest import THREADS
from tests.tiny_gguf import write_tiny_gguf

MINIMUM = 3
tokens = st.lists(st.integers(0, 2), max_size=50)


def draft_round(context: Sequence[int], depth: int = 8) -> DraftRound:
    return DraftRound(
        context=list(context),
        max_depth=depth,
        sampler=Sampler(SamplingParams()),
        mode="sampled",
        stream=IndependentStream(5, "draft"),
        policy=AlwaysDraft(depth),
    )


def followers(text: Sequence[int], suffix: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Token to how often it followed `suffix` in `text`, and where it last did, by search."""
    found: dict[int, tuple[int, int]] = {}
    size = len(suffix)
    for end in range(size, len(text)):
        if list(text[end - size : end]) == list(suffix):
            count, _ = found.get(text[end], (0, 0))
            found[text[end]] = (count + 1, end)
    return found


def expected_order(found: dict[int, tuple[int, int]]) -> list[int]:
    return sorted(found, key=lambda token: (-found[token][0], -found[token][1]))


# The chat's own index


@settings(max_examples=50)
@given(tokens, st.lists(st.integers(0, 2), max_size=6))
def test_followers_of_the_match_are_counted(text: list[int], draft: list[int]) -> None:
    index = SuffixIndex(MINIMUM)
    index.extend(text)
    match, cursor = index.longest_match(), index.cursor()
    assert (match is None) == (cursor is None)
    if match is None or cursor is None:
        return
    suffix = text[len(text) - match.length :]
    for token in draft:
        found = followers(text, suffix)
        if not found:
            return  # the end of the text: see the next test
        following = cursor.continuations()
        assert [one.token for one in following] == expected_order(found)
        total = sum(count for count, _ in found.values())
        for one in following:
            assert one.evidence == Evidence(len(suffix), found[one.token][0], total)
        cursor.advance(token)
        suffix = [*suffix, token]
        if token not in found:
            assert cursor.continuations() == ()
            return


def test_a_repetition_goes_on_beyond_the_end_of_the_text() -> None:
    index = SuffixIndex(MINIMUM)
    index.extend([1, 2, 3, 4] * 3)
    cursor = index.cursor()
    assert cursor is not None
    drafted = []
    for _ in range(10):
        drafted.append(cursor.continuations()[0].token)
        cursor.advance(drafted[-1])
    assert drafted == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]


# Earlier texts


@settings(max_examples=50)
@given(st.lists(tokens, min_size=1, max_size=4), tokens, st.lists(st.integers(0, 2), max_size=6))
def test_earlier_texts_answer_as_a_search_does(
    texts: list[list[int]], context: list[int], draft: list[int]
) -> None:
    index = EarlierIndex([np.array(text, np.int32) for text in texts], MINIMUM)
    joined = [token for text in texts for token in (*text, -1)]
    known = [
        length
        for length in range(MINIMUM, min(len(context), LONGEST_MATCH) + 1)
        if any(joined[i : i + length] == context[-length:] for i in range(len(joined)))
    ]
    cursor = index.cursor(context)
    assert (cursor is None) == (not known)
    if cursor is None:
        return
    suffix = context[len(context) - max(known) :]
    for token in draft:
        found = {one: seen for one, seen in followers(joined, suffix).items() if one >= 0}
        following = cursor.continuations()
        assert [one.token for one in following] == expected_order(found)
        for one in following:
            total = sum(count for count, _ in found.values())
            assert one.evidence == Evidence(len(suffix), found[one.token][0], total)
        cursor.advance(token)
        suffix = [*suffix, token]


def test_long_earlier_texts_are_followed_to_their_end() -> None:
    text = np.random.default_rng(4).integers(0, 900, 4000).astype(np.int32)
    index = EarlierIndex([text], MINIMUM)
    cursor = index.cursor(text[3000:3100].tolist())
    assert cursor is not None
    drafted: list[int] = []
    while following := cursor.continuations():
        assert following[0].evidence == Evidence(LONGEST_MATCH + len(drafted), 1, 1)
        drafted.append(following[0].token)
        cursor.advance(drafted[-1])
    assert drafted == text[3100:].tolist()
    assert index.bytes <= 12 * (len(text) + 1)


def test_only_new_texts_are_read() -> None:
    read: list[str] = []

    def tokenize(text: str) -> list[int]:
        read.append(text)
        return [int(letter) for letter in text]

    texts = EarlierTexts(tokenize, MINIMUM)
    assert texts.cursor([1, 2, 3]) is None and texts.bytes == 0
    texts.follow(("12345", "67812", "12345"))
    texts.follow(("12345", "67812", "12345"))
    texts.follow(("12345", "99123"))
    assert read == ["12345", "67812", "99123"]
    cursor = texts.cursor([1, 2, 3])
    assert cursor is not None and [one.token for one in cursor.continuations()] == [4]
    assert texts.cursor([5, 9, 9]) is None  # the end of one text and the start of the next
    texts.follow(())
    assert texts.cursor([1, 2, 3]) is None and texts.bytes == 0


def test_drafts_come_from_the_surer_source() -> None:
    texts = EarlierTexts(lambda text: [int(letter) for letter in text], MINIMUM)
    texts.follow(("8123456",))
    drafter = NgramDrafter(texts)
    chat = [1, 2, 3, 9, 9, 0, 1, 2, 3]
    drafter.begin(chat)
    assert drafter.propose(draft_round(chat, 1)).tokens == (9,)  # equal evidence: this chat
    longer = [1, 2, 3, 9, 9, 8, 1, 2, 3]
    drafter.begin(longer)
    assert drafter.propose(draft_round(longer, 3)).tokens == (4, 5, 6)
    assert drafter.memory_bytes > 0
    texts.follow(())
    assert drafter.propose(draft_round(longer, 1)).tokens == (9,)


# Evidence


@pytest.mark.parametrize("length", [3, 5, 8, 12, 40])
def test_evidence_that_agrees_counts_for_more(length: int) -> None:
    confidence = CopyConfidence()
    always, once, mostly, seldom = (
        confidence.estimate(Evidence(length, *counts))
        for counts in ((4, 4), (1, 1), (3, 4), (1, 4))
    )
    assert 1.0 > always > once > mostly > seldom > 0.0


def test_the_most_frequent_continuation_is_drafted() -> None:
    start = [1, 2, 3]
    text = [*start, 7, 5, *start, 7, 6, *start, 8, 4, *start]
    drafter = NgramDrafter()
    drafter.begin(text)
    assert drafter.propose(draft_round(text, 1)).tokens == (7,)
    drafter.start(draft_round(text))
    (first, likely), (second, less) = drafter.alternatives(3)
    assert (first, second) == (7, 8) and likely > less
    tree = TreeDrafter(drafter).propose(draft_round(text, 1))
    assert tree.tokens == (7, 8) and tree.parents == (-1, -1)


def test_a_draft_ends_where_it_gets_unlikely() -> None:
    text = [1, 2, 3, *range(4, 40), 1, 2, 3]
    drafter = NgramDrafter()
    drafter.begin(text)
    before = len(drafter.propose(draft_round(text, 30)))
    assert 4 <= before < 30
    for _ in range(40):  # short matches turn out wrong, what follows a long one right
        drafter.propose(draft_round(text, 30))
        drafter.observe(Observation(EMPTY_PROPOSAL, (), (99,)))
    assert drafter.propose(draft_round(text, 30)) == EMPTY_PROPOSAL
    long = [*range(20), 50, *range(20)]
    drafter.begin(long[:-1])
    repeated = [*range(20), 50] * 2
    drafter.begin(repeated)
    for _ in range(40):
        proposal = drafter.propose(draft_round(repeated, 20))
        drafter.observe(Observation(proposal, tuple(range(20)), tuple(range(20))))
    assert len(drafter.propose(draft_round(repeated, 20))) == 20


def test_a_draft_goes_along_with_another_choice_that_is_known() -> None:
    start = [1, 2, 3]
    text = [*start, 7, 5, 5, *start, 7, 6, 6, *start, 8, 4, 4, *start]
    drafter = NgramDrafter()
    drafter.begin(text)
    assert drafter.start(draft_round(text))
    drafter.advance(8)
    assert drafter.distribution().most_likely() == 4
    drafter.advance(9)
    assert drafter.peek() is None and drafter.alternatives(2) == []
    drafter.observe(Observation(Proposal.chain([8, 9], "other"), (0,), (8, 3)))


# In a session


@pytest.fixture
def session(library: Library, tmp_path: Path) -> Iterator[Session]:
    session = Session(library, DataFolder(tmp_path / "data"), AbortFlag())
    yield session
    session.unload()


def test_earlier_texts_change_what_is_drafted_and_nothing_else(
    session: Session, tmp_path: Path
) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf", layers=2)
    load = LoadRequest(str(target), "ngram", context_length=256, threads=THREADS)
    session.load(load, lambda _label, _fraction: None)

    def reply(texts: tuple[str, ...]) -> Finished:
        request = GenerateRequest(
            raw_prompt="A lighthouse",
            max_tokens=12,
            sampling=SamplingParams(temperature=1.0, seed=5),
            drafting=DraftParams("always", 4, coupling="seed"),
            copy_from=texts,
        )
        events: list[RunEvent] = list(session.generate(request, lambda: False))
        assert isinstance(events[-1], Finished)
        return events[-1]

    alone = reply(())
    helped = reply((f"A lighthouse{alone.text} and more", "nothing of use"))
    assert helped.tokens == alone.tokens and helped.prompt_tokens == alone.prompt_tokens
    assert helped.stats.accepted > alone.stats.accepted
    assert reply(()).stats.accepted == alone.stats.accepted
