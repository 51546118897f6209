"""`python -m engine.text.render_child BYTES SECONDS CHARACTERS`: renders chat templates.

A template may try to use up all memory and time, and a deep one can end the interpreter that
compiles it. Here that costs only this process, which limits itself before it reads any. A line of
JSON on stdin asks, a line on stdout answers. When stdin ends, the parent is gone and so is this.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import TemplateError as JinjaError

from engine.text.chat_filters import to_json
from engine.text.chat_sandbox import SandboxedTemplate, StepLimitError
from engine.text.marked import TYPED, Marked
from engine.text.template_look import look

if sys.platform != "win32":
    import resource

# What a template and its expressions can raise; the model's author wrote it, not the user.
_FAILURES = (
    JinjaError,
    StepLimitError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)
_LONGEST_REASON = 300
_SPARE_SECONDS = 2.0


class _Refused(Exception):  # noqa: N818 - the template's own word, not a fault
    """raise_exception was called by the template."""


def main() -> int:
    memory, characters = int(sys.argv[1]), int(sys.argv[3])
    _limit_memory(memory)
    renderer = Renderer(characters)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    _answer({"ready": True})
    while True:
        request = json.loads(requests.get())
        _limit_time(float(sys.argv[2]) + _SPARE_SECONDS)
        _answer(renderer.answer(request))


def _receive(requests: queue.SimpleQueue[bytes]) -> None:
    """Notices the end of stdin in the middle of a rendering, too."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _answer(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Renderer:
    """Answers requests; keeps the last template that it compiled."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._source: str | None = None
        self._template: SandboxedTemplate | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """{"text", "typed"} of the prompt, {"refused"} or {"failed"} with the reason.

        To a request with "look": what engine.text.template_look finds, or {"failed"}.
        """
        try:
            if "look" in request:
                return look(request["source"], **request["look"])
            template = self._compiled(request["source"])
        except MemoryError:
            return {"failed": "does not parse: it takes too much memory"}
        except _FAILURES as error:
            return {"failed": f"does not parse: {_reason(error)}"}
        try:
            prompt = template.render(_variables(request))
        except _Refused as said:
            return {"refused": str(said)[:_LONGEST_REASON]}
        except MemoryError:
            return {"failed": "failed: it takes too much memory"}
        except _FAILURES as error:
            return {"failed": f"failed: {_reason(error)}"}
        if len(prompt) > self._longest:
            return {"failed": f"failed: it writes more than {self._longest:,} characters"}
        typed = [match.span() for match in re.finditer(f"{TYPED}+", prompt.marks)]
        # Two halves of a surrogate pair would be one character to JSON, and move all marks.
        text = prompt.encode("utf-8", errors="replace").decode()
        return {"text": text, "typed": typed}

    def _compiled(self, source: str) -> SandboxedTemplate:
        if self._template is None or source != self._source:
            self._template = SandboxedTemplate(source, _FUNCTIONS)
            self._source = source
        return self._template


def _variables(request: Mapping[str, Any]) -> dict[str, Any]:
    messages = [_message(*parts) for parts in request["messages"]]
    told = {name: _typed(value) for name, value in request["variables"].items()}
    return {**told, **request["ends"], "messages": messages, "add_generation_prompt": True}


def _message(role: str, content: str, reasoning: str | None = None) -> dict[str, Any]:
    """Thoughts go by three names: most templates', that of gpt-oss, and that of Solar."""
    told: dict[str, Any] = {"role": role, "content": Marked(content)}
    if reasoning is not None:
        names = ("reasoning_content", "thinking", "reasoning")
        told |= dict.fromkeys(names, Marked(reasoning))
    return told


def _typed(value: Any) -> Any:
    """The value with all its text marked as typed."""
    if isinstance(value, str):
        return Marked(value)
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return value


def _reason(error: Exception) -> str:
    """In one line."""
    said = " ".join(str(error).split())
    return said[:_LONGEST_REASON] or type(error).__name__


def _refuse(message: object) -> None:
    raise _Refused(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "raise_exception": _refuse,
    "strftime_now": _strftime_now,
    "tojson": to_json,
}


def _limit_memory(size: int) -> None:
    """Linux holds a process to it; elsewhere the parent watches instead."""
    if sys.platform == "win32":
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_time(seconds: float) -> None:
    """So much processor time for one request, should the parent be unable to end this process."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(time.process_time() + seconds)
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    sys.exit(main())
