"""Messages to prompt text with the model's own chat template, in a sandbox.

A file without a template gets a documented plain one: "User: ...", "Assistant: ...".
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import TemplateError as JinjaError

from engine.data.errors import TemplateError
from engine.data.request import Message
from engine.text.chat_sandbox import SandboxedTemplate, StepLimitError

# What an expression of a template can raise; the model's author wrote it, not the user.
_FAILURES = (
    JinjaError,
    StepLimitError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """source: the template of the GGUF file, None for the plain fallback."""

    def __init__(self, source: str | None, bos: str, eos: str) -> None:
        self.is_builtin = source is not None
        self._bos = bos
        self._eos = eos
        self._template = None if source is None else _compile(source)

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt, ending where the assistant's reply starts.

        TemplateError when the template refuses the messages. A template that refuses a system
        message gets it as the beginning of the first user message.
        """
        if self._template is None:
            return _plain_prompt(messages)
        attempts: list[Sequence[Message]] = [messages]
        refusal: _Refused | None = None
        merged = _merge_system(messages)
        if merged is not None:
            attempts.append(merged)
        for attempt in attempts:
            try:
                return self._apply(self._template, attempt)
            except _Refused as said:
                refusal = said
        raise TemplateError(f"the model's chat template says: {refusal}")

    def _apply(self, template: SandboxedTemplate, messages: Sequence[Message]) -> str:
        try:
            return template.render(
                {
                    "messages": [{"role": m.role, "content": m.content} for m in messages],
                    "add_generation_prompt": True,
                    "bos_token": self._bos,
                    "eos_token": self._eos,
                }
            )
        except _FAILURES as error:
            reason = str(error) or type(error).__name__
            raise TemplateError(f"the model's chat template failed: {reason}") from error


def _compile(source: str) -> SandboxedTemplate:
    functions: dict[str, Callable[..., Any]] = {
        "raise_exception": _refuse,
        "strftime_now": _strftime_now,
        "tojson": _to_json,
    }
    try:
        return SandboxedTemplate(source, functions)
    except (JinjaError, RecursionError) as error:
        raise TemplateError(f"the model's chat template does not parse: {error}") from error


class _Refused(Exception):  # noqa: N818 - the template's own word, not a fault
    """raise_exception was called by the template."""


def _refuse(message: str) -> None:
    raise _Refused(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _merge_system(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The system text in front of the first user message; None if there is nothing to merge."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    first = Message("user", f"{messages[0].content}\n\n{messages[1].content}")
    return (first, *messages[2:])


def _plain_prompt(messages: Sequence[Message]) -> str:
    names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    lines = [f"{names[message.role]}{message.content}\n\n" for message in messages]
    return "".join(lines) + "Assistant:"
