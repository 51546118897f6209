"""Chosen drafters: rows of the list and their settings to expressions, and back."""

from __future__ import annotations

from typing import Any

import pytest

from app.chosen import ChosenDrafter, chosen_from, chosen_json, expressions
from app.requests import BadRequestError, checked_request
from engine.data.errors import BadOptionError


@pytest.mark.parametrize(
    ("chosen", "expression"),
    [
        (ChosenDrafter("ngram"), "ngram"),
        (ChosenDrafter("recycle", tree=24), "recycle:tree=24"),
        (ChosenDrafter("early-exit", layers="first=8"), "early-exit:first=8"),
        (ChosenDrafter("early-exit:mine", siblings=True), "tree(early-exit:mine)"),
        (
            ChosenDrafter("early-exit", layers="skip=1+2", siblings=True),
            "tree(early-exit:skip=1+2)",
        ),
        (
            ChosenDrafter('eagle3:"C:\\dir (1), x.gguf"', tree=16),
            'eagle3:tree=16:"C:\\dir (1), x.gguf"',
        ),
        (ChosenDrafter('medusa:"tree=4:x"', tree=8), 'medusa:tree=8:"tree=4:x"'),
        (ChosenDrafter('medusa:"tree=4:x"'), 'medusa:"tree=4:x"'),
        (ChosenDrafter("eagle", tree=64), "eagle:tree=64"),
        (
            ChosenDrafter('model:"/a), (b\n.gguf"', siblings=True),
            'tree(model:"/a), (b\n.gguf")',
        ),
        (ChosenDrafter('tli:"/say ""hi"":tree=3"'), 'tli:"/say ""hi"":tree=3"'),
        (ChosenDrafter("no drafter (at all"), "no drafter (at all"),
    ],
)
def test_what_is_chosen_is_written_and_split_again(chosen: ChosenDrafter, expression: str) -> None:
    assert chosen.expression() == expression
    assert chosen_from(expression) == chosen


@pytest.mark.parametrize(
    "chosen",
    [
        ChosenDrafter("ngram", tree=4),
        ChosenDrafter("ngram", layers="first=8"),
        ChosenDrafter("recycle", layers="first=8"),
        ChosenDrafter("recycle", tree=65),
        ChosenDrafter("recycle", tree=-1),
        ChosenDrafter("medusa", tree=65),
        ChosenDrafter("medusa:x", tree=-1),
        ChosenDrafter("medusa:x", layers="skip=1"),
        ChosenDrafter("early-exit", tree=4),
        ChosenDrafter("early-exit", layers="a name"),
        ChosenDrafter("early-exit", layers="skip=1),ngram"),
        ChosenDrafter("early-exit:mine", layers="skip=1"),
        ChosenDrafter("no drafter (at all", siblings=True),
        ChosenDrafter("vote(ngram,recycle)", tree=4),
    ],
)
def test_what_cannot_be_set_is_refused(chosen: ChosenDrafter) -> None:
    with pytest.raises(BadOptionError):
        chosen.expression()


def load(*drafters: Any) -> dict[str, Any]:
    arguments = {"target": "starter", "drafters": list(drafters)}
    return checked_request({"action": "load", "arguments": arguments})[1]


def test_a_request_chooses_by_expression_or_by_row_and_settings() -> None:
    arguments = load("ngram", {"value": "recycle", "tree": 8}, {"value": "early-exit"})
    assert expressions(arguments["drafters"]) == ("ngram", "recycle:tree=8", "early-exit")


def test_what_a_page_is_sent_it_can_send_back() -> None:
    written = ("ngram", "tree(early-exit:skip=1+2)", "vote(ngram,recycle)", "(")
    assert expressions(load(*chosen_json(written))["drafters"]) == written


@pytest.mark.parametrize(
    "drafter",
    [
        5,
        None,
        {},
        {"value": 5},
        {"value": "ngram", "tree": "4"},
        {"value": "ngram", "siblings": 1},
        {"value": "ngram", "more": 1},
        {"value": "x" * 5_000},
    ],
)
def test_no_other_form_of_a_drafter_passes(drafter: Any) -> None:
    with pytest.raises(BadRequestError):
        load(drafter)
