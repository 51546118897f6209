"""Names of drafters: the same table as for the page's rules, tests/page/names.test.js."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.choices import drafter_options
from app.names import drafter_name
from engine.drafters.registry import KINDS

TABLE = json.loads((Path(__file__).parents[1] / "page" / "names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("expression", "name"), TABLE["names"])
def test_a_drafter_is_called_as_in_the_list(expression: str, name: str) -> None:
    assert drafter_name(expression, TABLE["labels"]) == name


def test_the_list_itself_uses_these_names() -> None:
    options = {option.value: option.label for option in drafter_options((), None, lambda *_: None)}
    assert options == {kind.name: kind.label for kind in KINDS if kind.needs_no_file}
    for value, label in options.items():
        assert drafter_name(value, {}) == label
