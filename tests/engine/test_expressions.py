"""Expressions of drafters: what they stand for, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.data.errors import BadOptionError
from engine.drafters.expression import HEAD_KINDS, DrafterExpression, drafter_text
from engine.drafters.heads_argument import HeadsArgument, parse_heads
from engine.drafters.parse import parse_expression
from engine.skip.choice import parse_skip


@pytest.mark.parametrize(
    ("text", "shown", "leaves"),
    [
        ("ngram", "ngram", 1),
        (" ngram ", "ngram", 1),
        ("model:starter", "model:starter", 1),
        ("model:hub:owner/repo/a.gguf", "model:hub:owner/repo/a.gguf", 1),
        ("model:/some/path (1)/a.gguf", 'model:"/some/path (1)/a.gguf"', 1),
        ("model:/some/a (1)", 'model:"/some/a (1)"', 1),
        ("model:/some, path/a.gguf", 'model:"/some, path/a.gguf"', 1),
        ('model:"plain.gguf"', "model:plain.gguf", 1),
        ('model:/say "hi".gguf', 'model:"/say ""hi"".gguf"', 1),
        ('first(ngram,model:"C:\\dir (1), x.gguf")', 'first(ngram,model:"C:\\dir (1), x.gguf")', 2),
        ('vote(model:"a)",tree(tli:"b,(" ))', 'vote(model:"a)",tree(tli:"b,("))', 2),
        ('eagle3:tree=16:"/a, b.gguf"', 'eagle3:tree=16:"/a, b.gguf"', 1),
        ('medusa:"/heads (2)"', 'medusa:"/heads (2)"', 1),
        ('medusa:"tree=4"', 'medusa:"tree=4"', 1),
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
        'model:"a',
        'model:""',
        'model:"a"b',
        'first(ngram,model:"a)',
        'first(ngram,model:"a" "b")',
        "first(ngram,model:/a, b.gguf)",
        "early-exit:skip=\u00b2",
        "early-exit:skip=" + "9" * 5000,
        "early-exit:first=" + "9" * 5000,
        "recycle:tree=" + "9" * 5000,
        "eagle3:tree=\u00b2:x",
        "first(" * 20_000,
        "tree(" * 20_000 + "ngram" + ")" * 20_000,
    ],
)
def test_wrong_drafter_expressions_are_options_errors(text: str) -> None:
    with pytest.raises(BadOptionError):
        parse_expression(text)


def test_a_path_that_was_cut_at_its_comma_names_the_way() -> None:
    with pytest.raises(BadOptionError, match="in quotation marks"):
        parse_expression("first(ngram,model:/models/a, b.gguf)")


REFERENCES = st.text(min_size=1, max_size=20) | st.text("(),\"' :\\=tre/1\u00e4", min_size=1)
"""File names may hold anything."""


def named(draw: st.DrawFn) -> DrafterExpression:
    kind = draw(st.sampled_from(["model", "tli", *HEAD_KINDS]))
    reference = draw(REFERENCES)
    if kind in HEAD_KINDS:
        nodes = draw(st.integers(0, 64))
        return DrafterExpression(kind, str(HeadsArgument(nodes, reference)))
    return DrafterExpression(kind, reference)


LEAVES = st.composite(named)() | st.sampled_from(
    [parse_expression(text) for text in ("ngram", "early-exit:skip=1+2", "recycle:tree=8", "mtp")]
)


def grouped(members: st.SearchStrategy[DrafterExpression]) -> st.SearchStrategy[DrafterExpression]:
    several = st.lists(members, min_size=2, max_size=3, unique=True).map(tuple)
    kinds = st.sampled_from(["first", "vote", "mixture", "union", "best"])
    groups = st.builds(lambda kind, of: DrafterExpression(kind, members=of), kinds, several)
    return groups | members.map(lambda one: DrafterExpression("tree", members=(one,)))


@given(st.recursive(LEAVES, grouped, max_leaves=6))
def test_what_is_written_is_read_again(expression: DrafterExpression) -> None:
    assert parse_expression(str(expression)) == expression
    assert parse_expression(f" {expression} ") == expression


@given(st.sampled_from(HEAD_KINDS), st.integers(0, 64), REFERENCES)
def test_heads_keep_their_file(kind: str, nodes: int, file: str) -> None:
    expression = parse_expression(str(DrafterExpression(kind, str(HeadsArgument(nodes, file)))))
    assert parse_heads(kind, expression.argument) == HeadsArgument(nodes, file)


@given(st.sampled_from(["model", "tli", "eagle3"]), REFERENCES)
def test_a_reference_is_written_and_read_among_others(kind: str, reference: str) -> None:
    leaf, other = parse_expression(f"first({drafter_text(kind, reference)},ngram)").leaves()
    read = parse_heads(kind, leaf.argument).file if kind in HEAD_KINDS else leaf.argument
    assert (read, other.kind) == (reference, "ngram")


@given(st.text(max_size=60) | st.text('model:tli(),"frs \\', max_size=60))
def test_any_text_is_an_expression_or_a_bad_option(text: str) -> None:
    try:
        expression = parse_expression(text)
    except BadOptionError:
        return
    assert parse_expression(str(expression)) == expression


def test_a_path_with_tree_in_it_is_no_tree() -> None:
    assert parse_expression("model:/x/tree=3.gguf").argument == "/x/tree=3.gguf"
    assert parse_heads("eagle3", parse_expression('eagle3:"tree=3:x"').argument).nodes == 0
    assert parse_heads("eagle3", parse_expression("eagle3:tree=3:x").argument).nodes == 3


def test_layers_to_skip_are_sorted_and_unique() -> None:
    assert parse_skip("skip=16+10+13+10") == (10, 13, 16)
