"""Chat templates: what they are given, how they refuse, and how hostile ones end."""

from __future__ import annotations

import pytest

from engine.data.errors import TemplateError
from engine.data.request import Message
from engine.text.chat import ChatTemplate
from tests.tiny_gguf import CHATML

CHAT = (
    Message("system", "Be brief."),
    Message("user", "Hi"),
    Message("assistant", "Hello"),
    Message("user", "Bye"),
)
LLAMA3 = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    " + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)


def render(source: str | None, messages: tuple[Message, ...] = CHAT) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(messages)


def test_chatml() -> None:
    assert render(CHATML) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_template_with_special_tokens_and_trimming() -> None:
    text = render(LLAMA3, (Message("user", "  Hi \n"),))
    assert text == (
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_a_refused_system_message_goes_into_the_first_user_message() -> None:
    assert render(GEMMA).startswith("<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n")


def test_a_refused_greeting_goes_into_the_system_text() -> None:
    greeting, user = Message("assistant", "Welcome."), Message("user", "Hi")
    told = "You have begun the chat with these words:\n\nWelcome.\n\nHi<end_of_turn>"
    assert told in render(GEMMA, (greeting, user))
    with_system = render(GEMMA, (Message("system", "Be brief."), greeting, user))
    assert f"user\nBe brief.\n\n{told}" in with_system


def test_a_template_that_takes_a_greeting_gets_it_as_a_message() -> None:
    source = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    template = ChatTemplate(source, "", "")
    chat = (Message("assistant", "Welcome."), Message("user", "Hi"))
    assert template.render(chat) == "assistant:Welcome.;user:Hi;"


def test_a_refusal_for_another_reason_is_told() -> None:
    with pytest.raises(TemplateError, match="Roles must alternate"):
        render(GEMMA, (Message("user", "a"), Message("user", "b")))


def test_without_a_template_the_roles_are_written_out() -> None:
    template = ChatTemplate(None, "", "")
    assert not template.is_builtin
    assert template.render(CHAT) == (
        "Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nUser: Bye\n\nAssistant:"
    )


def test_tags_and_helpers_that_published_templates_use() -> None:
    source = (
        "{% for m in messages %}{% if loop.index0 > 1 %}{% break %}{% endif %}"
        "{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}"
        "{{ {'a': 'é'} | tojson(ensure_ascii=False) }}{{ strftime_now('%Y') | length }}"
        "{{ [1, 2] | tojson(indent=1) | length > 4 }}"
    )
    assert render(source) == 'Be brief.;Hi;{"a": "é"}4True'


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}",
        "{{ messages | no_such_filter }}",
        "{{ '" + "(" * 3,
        "{% nonsense %}",
    ],
)
def test_a_template_that_does_not_parse(source: str) -> None:
    """Said where a chat is attempted: the model itself can be used."""
    template = ChatTemplate(source, "", "")
    assert template.is_builtin
    for _ in range(2):
        with pytest.raises(TemplateError, match="does not parse"):
            template.render(CHAT)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1 / 0 }}",
        "{{ messages[99].content.strip() }}",
        "{{ undefined_thing.attribute }}",
        "{{ 'a' + 1 }}",
        "{{ {}['x']['y'] }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append({}) }}",
        "{{ raise_exception.__globals__['os'].name }}",
        "{{ range(10 ** 9) }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ 10 ** 100000000 }}",
        "{{ [0] * 100000000 }}",
        "{{ '%d' % 'x' }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{% macro twice(n) %}{% if n %}{{ twice(n - 1) }}{{ twice(n - 1) }}{% endif %}"
        "{% endmacro %}{{ twice(60) }}",
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% set text = 'abcdefghij' * 1000 %}{% for a in text %}{% for b in text %}"
        "{% for c in text %}{% endfor %}{% endfor %}{% endfor %}",
    ],
)
def test_a_failing_or_hostile_template_ends_as_a_template_error(source: str) -> None:
    with pytest.raises(TemplateError, match="chat template failed"):
        render(source)


def test_halves_of_a_character_do_not_move_what_was_typed() -> None:
    """Beside each other they would become one character on the way, one shorter than the marks."""
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}<x>", "", "")
    prompt = template.prompt([Message("user", "a\ud83d"), Message("user", "\ude00b")])
    assert prompt.text == "a??b<x>" and prompt.typed == ((0, 4),)


def test_a_template_can_be_told_more_and_what_it_is_told_counts_as_typed() -> None:
    source = "{% if think %}[{{ level }}]{% endif %}{{ bos_token }}{{ messages[0].content }}"
    template = ChatTemplate(source, "<s>", "</s>")
    told = {"think": True, "level": "high", "bos_token": "no", "messages": "no"}
    prompt = template.prompt([Message("user", "Hi")], told)
    assert prompt.text == "[high]<s>Hi" and prompt.typed == ((1, 5), (9, 11))
    assert template.render([Message("user", "Hi")]) == "<s>Hi"


def test_steps_are_counted_per_rendering() -> None:
    template = ChatTemplate("{% for a in range(60000) %}{% endfor %}x", "", "")
    assert [template.render(CHAT) for _ in range(2)] == ["x"] * 2


def test_a_long_chat_is_far_from_the_limit() -> None:
    chat = tuple(Message("user" if i % 2 == 0 else "assistant", "word " * 20) for i in range(2001))
    assert len(render(LLAMA3, chat)) > 200_000
