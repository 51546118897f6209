"""Thoughts apart from answers, whatever the pieces in which a reply comes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from engine.data.reasoning import ThoughtMarkers
from engine.text.thought_split import ThoughtSplitter, TokenPart
from engine.text.thought_styles import markers_in

THINK = ThoughtMarkers(("<think>",), ("</think>",), calls=("<tool_call>",))


def split(
    pieces: Sequence[str | tuple[str, str]],
    markers: ThoughtMarkers = THINK,
    *,
    is_open: bool = False,
) -> tuple[str | None, str, list[TokenPart]]:
    """Thought, answer and the tokens; a pair is a token's text and its name as a control token."""
    splitter = ThoughtSplitter(markers, is_open=is_open)
    tokens: list[TokenPart] = []
    for piece in pieces:
        text, control = piece if isinstance(piece, tuple) else (piece, "")
        splitter.push(text, control)
        tokens += splitter.take()
    splitter.finish()
    tokens += splitter.take()
    assert len(tokens) == len(pieces)
    answer = "".join(token.text for token in tokens if token.part == "answer")
    return splitter.thought, answer, tokens


def channels() -> ThoughtMarkers:
    found = markers_in(frozenset({"<|channel|>analysis<|message|>"}))
    assert found is not None
    return found


@pytest.mark.parametrize("cuts", [(), (1, 2), (3, 9), (7, 8, 9)])
def test_the_pieces_do_not_matter(cuts: tuple[int, ...]) -> None:
    text = "\n<think>\nso <b> </thin </think>\n\nThe <think> tag"
    for places in [cuts, *combinations(range(1, len(text)), 2)]:
        ends = [*places, len(text)]
        pieces = [text[start:end] for start, end in zip([0, *places], ends, strict=True)]
        assert split(pieces)[:2] == ("so <b> </thin", "The <think> tag")
    assert split(list(text))[:2] == ("so <b> </thin", "The <think> tag")


def test_no_thought_leaves_the_text_alone() -> None:
    for text in (" \nHello", "<thin air", "< think>", " ", "", "a </think> b"):
        thought, answer, tokens = split(list(text))
        assert (thought, answer) == (None, text)
        assert {token.part for token in tokens} <= {"answer"}


def test_a_thought_that_the_prompt_opened() -> None:
    assert split(["I ", "see", "</think>", "\n\n", "Yes"], is_open=True)[:2] == ("I see", "Yes")


def test_one_repeated_opening_marker_is_dropped() -> None:
    assert split(["<think>", "\nI see", "</think>", "Yes"], is_open=True)[:2] == ("I see", "Yes")


def test_a_reply_that_ends_in_its_thought() -> None:
    assert split(["<think>", "I see", "</th"])[:2] == ("I see</th", "")
    assert split(["I see"], is_open=True)[:2] == ("I see", "")
    assert split(["<think>", "\n\n", "</think>"])[:2] == ("", "")


def test_a_tool_call_ends_a_thought_and_stays() -> None:
    thought, answer, _ = split(["<think>", "call it ", "<tool_", "call>", "{}</tool_call>"])
    assert thought == "call it"
    assert answer == "<tool_call>{}</tool_call>"


def test_control_tokens_are_in_no_text() -> None:
    thought, answer, tokens = split(
        [("", "<think>"), "a", ("", "</think>"), "b", ("", "<|im_end|>")]
    )
    assert (thought, answer) == ("a", "b")
    assert [token.part for token in tokens] == ["thought", "thought", "thought", "answer", "answer"]


def test_what_may_become_a_marker_waits_and_all_else_does_not() -> None:
    splitter = ThoughtSplitter(THINK, is_open=True)
    splitter.push("so")
    assert splitter.take() == [TokenPart("thought", "so")]
    splitter.push(" </")
    assert splitter.take() == []
    splitter.push("b>")
    assert splitter.take() == [TokenPart("thought", " </"), TokenPart("thought", "b>")]


def test_a_token_that_ends_a_thought_and_begins_the_answer() -> None:
    thought, answer, tokens = split(["<think>", "a", "b</think>\n\nYes", "!"])
    assert (thought, answer) == ("ab", "Yes!")
    assert tokens[2] == TokenPart("answer", "Yes")


def test_channels() -> None:
    head, name = ("", "<|channel|>"), ("", "<|message|>")
    reply: list[str | tuple[str, str]] = [
        head,
        "analysis",
        name,
        "so",
        ("", "<|end|>"),
        ("", "<|start|>"),
        "assistant",
    ]
    second: list[str | tuple[str, str]] = [
        head,
        "commentary",
        name,
        " then",
        ("", "<|end|>"),
        ("", "<|start|>"),
        "assistant",
    ]
    final: list[str | tuple[str, str]] = [head, "final", name, "Yes", ("", "<|return|>")]
    assert split([*reply, *final], channels())[:2] == ("so", "Yes")
    assert split([*reply, *second, *final], channels())[:2] == ("so\n\nthen", "Yes")
    assert split(final, channels())[:2] == (None, "Yes")


def test_an_answer_in_markers_of_its_own() -> None:
    markers = markers_in(frozenset({"<think>", "<response>"}))
    assert markers is not None
    text = "<think>a</think><response>Yes</response>"
    assert split(list(text), markers)[:2] == ("a", "Yes")


def test_a_marker_opened_by_a_prompt() -> None:
    assert THINK.are_open_in("<|assistant|>\n<think>\n")
    assert not THINK.are_open_in("<think>\n\n</think>\n\n")
    assert not THINK.are_open_in("assistant\n")
