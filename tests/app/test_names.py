"""Names of drafters: as in the list, for whatever names them; and pages hear of new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.choices import Option, drafter_options
from app.names import Names, drafter_name, drafters_in
from engine.drafters.registry import KINDS

TABLE = json.loads((Path(__file__).parent / "names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("expression", "name"), TABLE["names"])
def test_a_drafter_is_called_as_in_the_list(expression: str, name: str) -> None:
    assert drafter_name(expression, TABLE["labels"]) == name


def test_the_list_itself_uses_these_names() -> None:
    options = {option.value: option.label for option in drafter_options((), None, lambda *_: None)}
    assert options == {kind.name: kind.label for kind in KINDS if kind.needs_no_file}
    for value, label in options.items():
        assert drafter_name(value, {}) == label


def row(value: str, label: str) -> Option:
    return Option(value, label, "", "")


def test_a_page_hears_what_is_called_otherwise_than_it_was_told() -> None:
    news: list[dict[str, str]] = []
    names = Names(news.append)
    names.learn([row("starter", "SmolLM2 135M")])
    told = names.table(["model:small", "tree(model:small)", "nonsense"], ["starter", "/a/x.gguf"])
    assert told == {
        "model:small": "small",
        "tree(model:small)": "small with siblings",
        "nonsense": "nonsense",
        "starter": "SmolLM2 135M",
        "/a/x.gguf": "x",
    }
    names.learn([row("starter", "SmolLM2 135M"), row("ngram", "n-gram lookup")])
    assert news == []
    names.learn([row("small", "Small 30M")])
    assert news == [{"model:small": "Small 30M", "tree(model:small)": "Small 30M with siblings"}]
    names.learn([row("small", "Small 30M"), row("other", "Other")])
    assert len(news) == 1


def test_a_model_that_drafts_is_called_as_the_model() -> None:
    for kind in ("model", "tli", "medusa"):
        assert drafter_name(f"{kind}:small", {"small": "Small 30M"}) == "Small 30M"


@pytest.mark.parametrize(
    ("details", "found"),
    [
        ({}, ()),
        (
            {"drafters": ["ngram", "recycle"], "stats": {"by_drafter": {"ngram": {}}}},
            ("ngram", "recycle"),
        ),
        ({"stats": {"members": {"vote": {}}, "by_drafter": None}}, ("vote",)),
        ({"drafters": "ngram", "stats": ["ngram"]}, ()),
        ({"drafters": [5, None, ["x"], "ngram"], "stats": {"members": 3}}, ("ngram",)),
    ],
)
def test_stored_details_may_hold_anything(details: dict[str, Any], found: tuple[str, ...]) -> None:
    assert drafters_in(details) == found
