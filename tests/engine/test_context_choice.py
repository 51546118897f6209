"""How long a context is where a load asks for no length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.data.device import Room
from engine.files.gguf import GgufInfo, inspect
from engine.models.memory import DEFAULT_CONTEXT, ModelPlan, estimate
from engine.serving.context_choice import THINKING_CONTEXT, usual_context
from tests.thinking_template import THINKING
from tests.tiny_gguf import write_tiny_gguf

PLENTY = 10**12


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> GgufInfo:
    folder: Path = tmp_path_factory.mktemp("thinker")
    found = inspect(write_tiny_gguf(folder / "thinker.gguf", chat_template=THINKING))
    return replace(found, context_length=131_072)


def chosen(info: GgufInfo, free: int = PLENTY) -> int:
    return usual_context([ModelPlan(info)], Room(free))


def test_a_model_that_thinks_gets_more_where_there_is_memory(info: GgufInfo) -> None:
    assert chosen(info) == THINKING_CONTEXT
    barely = estimate(ModelPlan(info), THINKING_CONTEXT).total
    assert chosen(info, barely) == DEFAULT_CONTEXT, "it fits, and would leave little"


def test_others_get_what_they_had(info: GgufInfo) -> None:
    assert chosen(replace(info, chat_template="{{ messages }}")) == DEFAULT_CONTEXT
    assert chosen(replace(info, chat_template=None)) == DEFAULT_CONTEXT


def test_it_is_never_more_than_the_models_own(info: GgufInfo) -> None:
    assert chosen(replace(info, context_length=4096)) == 4096
    assert chosen(replace(info, context_length=10_000)) == 10_000
