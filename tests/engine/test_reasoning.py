"""What is found of thinking in chat templates: short ones, and whole ones where there are any.

FORERUN_TEST_TEMPLATES names a folder of whole templates (models/templates in llama.cpp's sources).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.data.errors import BadOptionError, TemplateError
from engine.data.reasoning import Reasoning, Thinking
from engine.data.request import Message
from engine.text.chat import ChatTemplate
from engine.text.render_process import RenderProcess
from tests.thinking_template import THINKING
from tests.tiny_gguf import CHATML

TURNS = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
CHANNELS = (
    'Reasoning: {{ reasoning_effort | default("medium") }}\n{% for message in messages %}'
    '{% if message.thinking and loop.last %}{{ "<|channel|>analysis<|message|>" + message.thinking'
    ' }}{% endif %}{{ message.content }}{% endfor %}{{ "<|start|>assistant" }}'
)
BUDGET = TURNS + (
    "{% if thinking_budget == 0 %}<seed:think></seed:think>{% endif %}"
    "{% if thinking_budget is defined and thinking_budget > 0 %}{{ thinking_budget }}{% endif %}"
)
ALWAYS = TURNS + "Assistant: <think>\n{# closed by </think> #}"
OFF_UNLESS_ASKED = TURNS + (
    "{% if enable_thinking %}{{ '<|think|>' }}{% else %}<|channel>thought\n<channel|>{% endif %}"
)
LEVELS = TURNS + (
    "{% if thinking_effort in ['low', 'max'] %}{{ thinking_effort }}{% endif %}<think></think>"
)
NAMED_ONLY = TURNS + "{# enable_thinking #}{% set x = enable_thinking %}<think></think>"
IN_A_COMMENT = TURNS + "{# <think></think> #}"


@pytest.fixture(scope="module")
def process() -> Iterator[RenderProcess]:
    process = RenderProcess()
    yield process
    process.close()


def found(source: str | None, process: RenderProcess) -> Reasoning | None:
    return ChatTemplate(source, "<s>", "</s>", process).reasoning()


def known(source: str, process: RenderProcess) -> Reasoning:
    reasoning = found(source, process)
    assert reasoning is not None
    return reasoning


def test_templates_that_know_no_thoughts(process: RenderProcess) -> None:
    for source in (None, CHATML, TURNS, IN_A_COMMENT):
        assert found(source, process) is None


def test_a_switch_is_what_changes_the_prompt(process: RenderProcess) -> None:
    reasoning = known(THINKING, process)
    assert reasoning.variables("off", None) == {"preserve_thinking": True, "enable_thinking": False}
    assert reasoning.variables(None, None) == {"preserve_thinking": True, "enable_thinking": True}
    assert known(NAMED_ONLY, process).switch is None


def test_what_is_usual_is_what_the_template_does_by_itself(process: RenderProcess) -> None:
    reasoning = known(OFF_UNLESS_ASKED, process)
    assert reasoning.markers.start == ("<|channel>thought",)
    assert reasoning.variables(None, None) == {"enable_thinking": False}
    assert reasoning.variables("on", None) == {"enable_thinking": True}


def test_a_budget_is_a_switch(process: RenderProcess) -> None:
    reasoning = known(BUDGET, process)
    assert reasoning.markers.end == ("</seed:think>",)
    assert reasoning.variables("off", None) == {"thinking_budget": 0}
    assert reasoning.variables("on", None) == {"thinking_budget": -1}


def test_levels_of_effort(process: RenderProcess) -> None:
    named = known(LEVELS, process)
    assert named.effort is not None
    assert named.effort.levels == ("low", "max")
    written = known(CHANNELS, process)
    assert written.effort is not None
    assert written.effort.levels == ("low", "medium", "high")
    assert written.variables(None, "high") == {"reasoning_effort": "high"}
    with pytest.raises(BadOptionError, match="low, medium, high"):
        written.variables(None, "max")


def test_no_switch(process: RenderProcess) -> None:
    reasoning = known(ALWAYS, process)
    assert reasoning.variables("on", None) == {}
    with pytest.raises(BadOptionError, match="always thinks"):
        reasoning.variables("off", None)


def test_thoughts_are_handed_over_as_a_field(process: RenderProcess) -> None:
    template = ChatTemplate(THINKING, "<s>", "</s>", process)
    said = (Message("user", "a"), Message("assistant", "b", "why </think> not"))
    with_it = template.prompt(said, {"preserve_thinking": True})
    assert "<think>\nwhy </think> not\n</think>\n\nb" in with_it.text
    start = with_it.text.index("why </think> not")
    assert with_it.is_typed(start, start + 1)
    assert "why" not in template.render(said)


def test_a_broken_template_is_told_as_such(process: RenderProcess) -> None:
    with pytest.raises(TemplateError, match="does not parse"):
        found("{% if %}", process)


TEMPLATES = os.environ.get("FORERUN_TEST_TEMPLATES")

if TEMPLATES:
    WHOLE = {  # start, switch and what is usual, effort, keeps older thoughts
        "Qwen-Qwen3-0.6B": ("<think>", "enable_thinking on", "", False),
        "Qwen3.5-4B": ("<think>", "enable_thinking on", "", False),
        "GLM-4.6": ("<think>", "enable_thinking on", "", False),
        "GLM-4.7-Flash": ("<think>", "enable_thinking on", "", True),
        "HuggingFaceTB-SmolLM3-3B": ("<think>", "enable_thinking on", "", False),
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("<think>", "enable_thinking on", "", True),
        "deepseek-ai-DeepSeek-V3.1": ("<think>", "enable_thinking off", "", False),
        "deepseek-ai-DeepSeek-V4-Flash-0731": (
            "<think>",
            "enable_thinking off",
            "high max",
            True,
        ),
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("<think>", "", "", False),
        "MiniMax-M2": ("<think>", "", "", False),
        "MiniMax-M3": ("<mm:think>", "thinking_mode on", "", True),
        "Kimi-K2-Thinking": ("<think>", "", "", False),
        "openai-gpt-oss-120b": (
            "<|channel|>analysis<|message|>",
            "",
            "low medium high",
            False,
        ),
        "google-gemma-4-31B-it": ("<|channel>thought", "enable_thinking off", "", False),
        "ByteDance-Seed-OSS": ("<seed:think>", "thinking_budget on", "", True),
        "mistralai-Ministral-3-14B-Reasoning-2512": ("[THINK]", "", "", False),
        "Cohere2MoE": ("<|START_THINKING|>", "", "", True),
        "Apertus-8B-Instruct": ("<|inner_prefix|>", "enable_thinking off", "", False),
        "Apriel-1.6-15b-Thinker-fixed": ("Here are my reasoning steps:", "", "", False),
        "ibm-granite-granite-3.3-2B-Instruct": ("<think>", "thinking off", "", False),
        "Qwen-Qwen2.5-7B-Instruct": None,
        "meta-llama-Llama-3.1-8B-Instruct": None,
    }
    OPENED = {
        "Qwen3.5-4B": True,
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": True,
        "MiniMax-M2": True,
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": True,
        "Apriel-1.6-15b-Thinker-fixed": True,
        "Qwen-Qwen3-0.6B": False,
        "openai-gpt-oss-120b": False,
        "google-gemma-4-31B-it": False,
    }

    def whole(name: str) -> str:
        return (Path(TEMPLATES or "") / f"{name}.jinja").read_text(encoding="utf-8")

    @pytest.mark.parametrize("name", WHOLE)
    def test_a_whole_template(name: str, process: RenderProcess) -> None:
        reasoning = found(whole(name), process)
        expected = WHOLE[name]
        if reasoning is None or expected is None:
            assert reasoning is None and expected is None
            return
        switch, effort = reasoning.switch, reasoning.effort
        assert expected == (
            reasoning.markers.start[0],
            f"{switch.variable} {switch.usual}" if switch else "",
            " ".join(effort.levels) if effort else "",
            reasoning.keeps_thoughts,
        )

    @pytest.mark.parametrize("name", OPENED)
    def test_what_a_whole_template_opens(name: str, process: RenderProcess) -> None:
        template = ChatTemplate(whole(name), "<s>", "</s>", process)
        reasoning = template.reasoning()
        assert reasoning is not None
        thinking: Thinking | None = "on" if reasoning.switch else None
        prompt = template.render((Message("user", "Hi"),), reasoning.variables(thinking, None))
        assert reasoning.markers.are_open_in(prompt) == OPENED[name]
        if reasoning.switch is not None:
            closed = template.render((Message("user", "Hi"),), reasoning.variables("off", None))
            assert not reasoning.markers.are_open_in(closed)
