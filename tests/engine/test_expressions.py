"""Expressions of drafters: what they stand for, and what is none."""

from __future__ import annotations

import pytest

from engine.data.errors import BadOptionError
from engine.drafters.expression import parse_expression
from engine.skip.choice import parse_skip


@pytest.mark.parametrize(
    ("text", "shown", "leaves"),
    [
        ("ngram", "ngram", 1),
        (" ngram ", "ngram", 1),
        ("model:starter", "model:starter", 1),
        ("model:hub:owner/repo/a.gguf", "model:hub:owner/repo/a.gguf", 1),
        ("model:/some/path (1)/a.gguf", "model:/some/path (1)/a.gguf", 1),
        ("early-exit", "early-exit", 1),
        ("early-exit:skip=13+10", "early-exit:skip=13+10", 1),
        ("first(ngram,model:a)", "first(ngram,model:a)", 2),
        ("first(ngram, first(early-exit,model:a))", "first(ngram,first(early-exit,model:a))", 3),
        ("tli:gemma3-270m", "tli:gemma3-270m", 1),
        ("vote(ngram,model:a,tli:b)", "vote(ngram,model:a,tli:b)", 3),
        ("union(tree(vote(ngram,early-exit)),model:a)",) * 2 + (3,),
        ("mixture(model:a,best(model:b,ngram))", "mixture(model:a,best(model:b,ngram))", 3),
    ],
)
def test_drafter_expressions(text: str, shown: str, leaves: int) -> None:
    expression = parse_expression(text)
    assert str(expression) == shown
    assert len(expression.leaves()) == leaves
    assert parse_expression(shown) == expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "model",
        "model:",
        "ngram:3",
        "first(ngram)",
        "first()",
        "first(ngram,)",
        "first(ngram,model:a",
        "first(ngram,model:a))",
        "second(ngram,model:a)",
        "early-exit:skip=",
        "early-exit:skip=a",
        "early-exit:layers=3",
        "first(ngram),(ngram)",
        "tli:",
        "vote(ngram,ngram)",
        "tree(ngram,model:a)",
        "tree()",
        "tree",
    ],
)
def test_wrong_drafter_expressions_are_options_errors(text: str) -> None:
    with pytest.raises(BadOptionError):
        parse_expression(text)


def test_layers_to_skip_are_sorted_and_unique() -> None:
    assert parse_skip("skip=16+10+13+10") == (10, 13, 16)
