"""Messages to a prompt with the model's own chat template, which runs in a process of its own.

A file without a template gets a documented plain one: "User: ...", "Assistant: ...".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from engine.data.errors import TemplateError
from engine.data.reasoning import Reasoning, Thinking, Variable, variables_of
from engine.data.request import Message
from engine.text.prompt_text import PromptText, assembled
from engine.text.reasoning import find_reasoning
from engine.text.render_process import RenderProcess, never


class ChatTemplate:
    """source: the template of the GGUF file, None for the plain fallback.

    Nothing is read before it is asked for, so a broken template fails there. process: where it
    is rendered, if others are rendered there too; then its owner closes it.
    """

    def __init__(
        self, source: str | None, bos: str, eos: str, process: RenderProcess | None = None
    ) -> None:
        self.is_builtin = source is not None
        self._source = source
        self._ends = {"bos_token": bos, "eos_token": eos}
        self._process = process or RenderProcess()
        self._is_owner = process is None
        self._reasoning: Reasoning | None = None
        self._is_known = False

    def close(self) -> None:
        """Ends what renders; closing twice is safe, and rendering starts it again."""
        if self._is_owner:
            self._process.close()

    def render(
        self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None
    ) -> str:
        """The text of the prompt."""
        return self.prompt(messages, variables).text

    def prompt(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, Any] | None = None,
        cancelled: Callable[[], bool] = never,
    ) -> PromptText:
        """The prompt, ending where the assistant's reply starts.

        TemplateError when the template refuses the messages or fails in any way, RenderStopped when
        cancelled. A template that refuses a system message gets it as the beginning of the first
        user message, and one that refuses a chat begun by the assistant gets that greeting in the
        system message. variables: what the template can be told besides, as JSON has it; its
        text counts as typed.
        """
        if self._source is None:
            return _plain_prompt(messages)
        given = dict(variables or {})
        answer = self._ask(messages, given, cancelled)
        for other in _other_forms(messages):
            if "refused" not in answer:
                break
            answer = self._ask(other, given, cancelled)
        if "refused" in answer:
            raise TemplateError(f"the model's chat template says: {answer['refused']}")
        if "failed" in answer:
            raise TemplateError(
                f"the model's chat template {answer['failed']}; choose another model"
            )
        return PromptText(answer["text"], tuple((start, end) for start, end in answer["typed"]))

    def _ask(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, Any],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        parts = [(one.role, one.content, one.reasoning) for one in messages]
        request = {
            "source": self._source,
            "ends": self._ends,
            "messages": parts,
            "variables": variables,
        }
        return self._process.ask(request, cancelled)

    def reasoning(self) -> Reasoning | None:
        """What the template says of thinking; TemplateError when it cannot be read."""
        if not self._is_known:
            self._reasoning, self._is_known = find_reasoning(self), True
        return self._reasoning

    def variables(self, thinking: Thinking | None, effort: str | None) -> dict[str, Variable]:
        """What the template is told of them. BadOptionError for what it does not have."""
        return variables_of(self.reasoning(), thinking, effort)

    def look(self, names: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """What stands in the template: see engine.text.template_look. TemplateError."""
        if self._source is None:
            return {"names": [], "texts": [], "compared": {}}
        request = {"source": self._source, "look": {"names": list(names), "texts": list(texts)}}
        answer = self._process.ask(request)
        if "failed" in answer:
            raise TemplateError(f"the model's chat template {answer['failed']}")
        return answer


def _other_forms(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """The same said in ways that stricter templates take."""
    told = _tell_greeting(messages)
    merged = (_merge_system(messages), told, None if told is None else _merge_system(told))
    yield from (form for form in merged if form is not None)


def _tell_greeting(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """What the assistant said first as part of the system text; None if the user began."""
    has_system = bool(messages) and messages[0].role == "system"
    rest = messages[1:] if has_system else messages
    if not rest or rest[0].role != "assistant":
        return None
    system = f"{messages[0].content}\n\n" if has_system else ""
    greeting = f"{system}You have begun the chat with these words:\n\n{rest[0].content}"
    return (Message("system", greeting), *rest[1:])


def _merge_system(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The system text in front of the first user message; None if there is nothing to merge."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    first = Message("user", f"{messages[0].content}\n\n{messages[1].content}")
    return (first, *messages[2:])


def _plain_prompt(messages: Sequence[Message]) -> PromptText:
    names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    pieces = [
        piece
        for message in messages
        for piece in ((names[message.role], False), (message.content, True), ("\n\n", False))
    ]
    return assembled([*pieces, ("Assistant:", False)])
