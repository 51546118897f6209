"""Settings, preferences and what they become."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import pytest

from app.preferences import PreferencesFile
from app.settings import Combination, Settings, combined, settings_from_json
from app.settings_form import FIELDS
from engine.data.errors import BadOptionError
from engine.data.request import Message
from engine.drafters.parse import parse_expression

BAD: list[tuple[str, Any, str]] = [
    ("temperature", "hot", "Temperature must be a number"),
    ("temperature", True, "Temperature must be a number"),
    ("temperature", -0.1, "between 0 and 5"),
    ("top_k", 1.5, "Top-k must be a whole number"),
    ("top_p", 0, "between 0.01 and 1"),
    ("min_p", 1, "between 0 and 0.99"),
    ("repeat_penalty", 0, "between 0.1 and 10"),
    ("seed", -1, "Seed must be a number between 0"),
    ("max_tokens", 0, "Longest reply"),
    ("max_tokens", 1.5, "Longest reply must be a whole number"),
    ("draft_max", 65, "between 1 and 64"),
    ("speculate", "sometimes", "Speculation"),
    ("numerics", 3, "Numerics"),
    ("system_prompt", 3, "System prompt"),
    ("gpu_layers", -2, "GPU layers"),
    ("context_length", float("nan"), "Context size"),
    ("no_such", 1, "unknown setting 'no_such'"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(BadOptionError, match=message):
        settings_from_json(asdict(Settings()) | {name: value})


def test_every_setting_has_a_field_with_help_and_a_valid_default() -> None:
    assert [field.name for field in FIELDS] == [field.name for field in fields(Settings)]
    assert all(field.help.endswith(".") for field in FIELDS)
    assert settings_from_json(asdict(Settings())) == Settings()


def test_settings_reach_the_requests() -> None:
    settings = settings_from_json(
        asdict(Settings())
        | {
            "system_prompt": "Be brief.",
            "temperature": 0.25,
            "top_k": 11,
            "top_p": 0.5,
            "min_p": 0.125,
            "repeat_penalty": 1.25,
            "seed": 99,
            "max_tokens": 7,
            "overflow": "trim",
            "speculate": "always",
            "draft_max": 3,
            "draft_mode": "argmax",
            "coupling": "seed",
            "earlier_chats": "on",
            "context_length": 4096,
            "threads": 2,
            "gpu_layers": 5,
            "numerics": "strict",
            "combination": "vote",
        }
    )
    request = settings.generate_request((Message("user", "hello"),))
    assert request.messages == (Message("system", "Be brief."), Message("user", "hello"))
    assert (request.max_tokens, request.overflow) == (7, "trim")
    sampling, drafting = request.sampling, request.drafting
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.25, 11, 0.5)
    assert (sampling.min_p, sampling.repeat_penalty, sampling.seed) == (0.125, 1.25, 99)
    assert (drafting.speculate, drafting.draft_max) == ("always", 3)
    assert (drafting.mode, drafting.coupling) == ("argmax", "seed")
    load = settings.load_request("starter", ("ngram", "model:x"))
    assert (load.target, load.drafter) == ("starter", "vote(ngram,model:x)")
    assert (load.context_length, load.threads, load.gpu_layers) == (4096, 2, 5)
    assert load.numerics == "strict"


@pytest.mark.parametrize(
    ("drafters", "expression"),
    [((), None), (("ngram",), "ngram"), (("ngram", "early-exit"), "first(ngram,early-exit)")],
)
def test_drafters_are_combined_in_their_order(
    drafters: tuple[str, ...], expression: str | None
) -> None:
    assert combined(drafters, "first") == expression
    if expression is not None:
        assert str(parse_expression(expression)) == expression


@pytest.mark.parametrize("combination", get_args(Combination))
def test_every_combination_offered_is_one_the_engine_knows(combination: Combination) -> None:
    expression = combined(("ngram", "early-exit"), combination)
    assert expression == f"{combination}(ngram,early-exit)"
    assert str(parse_expression(expression)) == expression
    field = next(field for field in FIELDS if field.name == "combination")
    assert combination in [value for value, _ in field.choices]


def test_preferences_are_kept_and_a_bad_change_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "preferences.json"
    file = PreferencesFile(path)
    file.set_settings({"temperature": 0.1, "seed": 5})
    file.set_view({"view": "tokens", "theme": "dark", "colour": "nonsense"})
    file.set_models("starter", ("ngram",))
    with pytest.raises(BadOptionError):
        file.set_settings({"temperature": -1})
    again = PreferencesFile(path)
    assert again.current == file.current
    assert again.current.settings.temperature == 0.1
    assert again.current.view.view == "tokens" and again.current.view.colour == "outcome"
    assert (again.current.target, again.current.drafters) == ("starter", ("ngram",))
    assert again.problem == ""


def test_a_setting_of_another_version_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "preferences.json"
    PreferencesFile(path).set_settings({"top_k": 7})
    data = json.loads(path.read_text())
    data["settings"]["from_the_future"] = 1
    path.write_text(json.dumps(data))
    assert PreferencesFile(path).current.settings.top_k == 7


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"settings": []}', '{"settings": {"top_k": "x"}}', "{}"]
)
def test_unreadable_preferences_are_put_aside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "preferences.json"
    path.write_text(text)
    file = PreferencesFile(path)
    assert file.current.settings == Settings()
    aside = tmp_path / "preferences.unreadable.json"
    assert aside.read_text() == text
    assert file.problem and str(aside) in file.problem


@pytest.mark.parametrize(("stored", "read"), [(1024, None), (1023, 1023), (None, None)])
def test_the_longest_reply_that_nobody_chose_is_the_new_one(
    tmp_path: Path, stored: int | None, read: int | None
) -> None:
    path = tmp_path / "preferences.json"
    PreferencesFile(path).set_settings({"max_tokens": stored})
    data = json.loads(path.read_text())
    del data["settings"]["thinking_budget"]
    path.write_text(json.dumps(data))
    assert PreferencesFile(path).current.settings.max_tokens == read
    PreferencesFile(path).set_settings({"max_tokens": 1024})
    assert PreferencesFile(path).current.settings.max_tokens == 1024, "chosen since then"
