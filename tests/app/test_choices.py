"""What the dropdowns offer."""

from __future__ import annotations

from app.choices import ModelChoice, Option, drafter_options, size_text, target_options
from app.settings import combined
from engine.drafters.parse import parse_expression
from tests.fakes_models import MODELS, FakeModels

SERVICE = FakeModels()


def by_value(options: list[Option]) -> dict[str, Option]:
    return {option.value: option for option in options}


def test_every_model_is_listed_and_missing_ones_can_be_fetched() -> None:
    options = by_value(target_options(MODELS))
    assert set(options) == {model.id for model in MODELS}
    assert options["starter"].reason is None
    assert options["large"].reason == "not downloaded"
    assert options["large"].action == "download:large"
    assert options["large"].detail == "5.03 GB · Q4_K_M"


def test_targets_that_are_here_come_first() -> None:
    models = (
        ModelChoice("a", "A", 1, True),
        ModelChoice("b", "B", 1, False),
        ModelChoice("c", "C", 1, True),
    )
    assert [option.value for option in target_options(models)] == ["a", "c", "b"]


def test_drafters_that_do_not_fit_say_why() -> None:
    options = by_value(drafter_options(MODELS, "starter", SERVICE.obstacle))
    assert {value for value in options if not value.startswith("tli:")} == {
        "ngram",
        "early-exit",
        "recycle",
        "mtp",
        *(f"model:{model.id}" for model in MODELS),
    }
    assert options["ngram"].reason is None and options["early-exit"].reason is None
    assert options["model:tiny-draft"].reason is None
    assert options["model:starter"].reason == "this is the target"
    assert options["model:coder"].reason == "vocabulary 151,936 against 49,152"


def test_a_model_with_another_tokenizer_is_offered_across() -> None:
    options = by_value(drafter_options(MODELS, "starter", SERVICE.obstacle))
    across = options["tli:coder"]
    assert (across.reason, across.group) == (None, "Across tokenizers")
    assert "tli:starter" not in options and "tli:tiny-draft" not in options
    assert "tli:large" not in options  # not downloaded


def test_a_model_that_shares_nearly_all_tokens_says_so() -> None:
    options = by_value(
        drafter_options(
            MODELS, "starter", SERVICE.obstacle, (), lambda _target, drafter: f"of {drafter}"
        )
    )
    assert options["model:tiny-draft"].detail.endswith(" · of tiny-draft")
    assert "of coder" not in options["model:coder"].detail


def test_a_path_with_a_comma_stays_one_drafter_among_others() -> None:
    model = ModelChoice("/models/a (1), b.gguf", "A", 1, True)
    options = by_value(drafter_options([model], "t", lambda target, drafter: None))
    value = 'model:"/models/a (1), b.gguf"'
    assert options[value].reason is None
    expression = parse_expression(str(combined(("ngram", value), "first")))
    assert [leaf.argument for leaf in expression.leaves()] == ["", model.id]


def test_suggested_drafters_come_first_among_models() -> None:
    options = drafter_options(MODELS, "coder", SERVICE.obstacle)
    assert [option.value for option in options[:4]] == [
        "ngram",
        "early-exit",
        "recycle",
        "model:coder-small",
    ]
    assert options[3].suggested


def test_a_suggested_drafter_that_is_not_here_has_its_own_place() -> None:
    models = (
        ModelChoice("big", "Big", 1, True, drafters=("small",)),
        ModelChoice("small", "Small", 1, False),
    )
    option = by_value(drafter_options(models, "big", lambda target, drafter: None))["model:small"]
    assert (option.reason, option.action) == ("not downloaded", "download:small")
    assert option.group == "Suggested, not downloaded"


def test_without_a_target_models_wait() -> None:
    options = by_value(drafter_options(MODELS, None, SERVICE.obstacle))
    assert options["model:coder"].reason == "choose a target first"


def test_heads_are_drafters_of_their_kind_and_no_targets() -> None:
    heads = ModelChoice("/h.gguf", "Heads", 1, True, problem="needs EAGLE-3", heads="eagle3")
    assert target_options([heads])[0].reason == "needs EAGLE-3"
    options = by_value(drafter_options([*MODELS, heads], "starter", lambda target, drafter: None))
    assert options["eagle3:/h.gguf"].reason is None
    refused = drafter_options([heads], "starter", lambda target, drafter: "made for another")
    assert by_value(refused)["eagle3:/h.gguf"].reason == "made for another"


def test_mtp_is_offered_where_the_target_has_such_a_layer() -> None:
    without = ModelChoice("a", "A", 1, True)
    with_it = ModelChoice("b", "B", 1, True, mtp_problem="")
    models = (without, with_it)
    option = by_value(drafter_options(models, "b", lambda target, drafter: None))["mtp"]
    assert (option.reason, option.group) == (None, "Without a second model")
    option = by_value(drafter_options(models, "a", lambda target, drafter: None))["mtp"]
    assert option.reason == "the model has no MTP layer"
    assert by_value(drafter_options(models, None, lambda target, drafter: None))["mtp"].reason


def test_a_damaged_file_is_greyed() -> None:
    damaged = ModelChoice("bad", "Bad", 0, True, problem="the file ends early")
    assert target_options([damaged])[0].reason == "the file ends early"
    assert target_options([damaged])[0].detail == ""


def test_sizes_are_decimal() -> None:
    assert [size_text(n) for n in (0, 98_362_432, 5_027_783_488)] == ["", "98 MB", "5.03 GB"]
