"""Where chat templates run: Jinja's sandbox, with a limit on steps and on repeated text.

A template comes with a file from anywhere. Jinja's sandbox keeps it from Python's objects but not
from looping for ever, and an endless template would block the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_STEPS = 100_000
LONGEST_REPEATED = 1_000_000
_LARGEST_EXPONENT = 64
_STEP = "_forerun_step"


class StepLimitError(Exception):
    """The template does far more than writing a prompt takes."""


class SandboxedTemplate:
    """A compiled template. Every pass through a loop and every call of a macro is a step.

    Raises what Jinja raises: TemplateError and its kin when the source does not parse.
    """

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        """functions: what the template may call, and use as filters."""
        environment = _Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        environment.globals.update(functions)
        environment.filters.update(functions)
        environment.globals[_STEP] = self._count_step
        tree = environment.parse(source)
        loops = [node.body for node in tree.find_all(nodes.For)]
        macros = [node.body for node in tree.find_all(nodes.Macro)]
        calls = [node.body for node in tree.find_all(nodes.CallBlock)]
        for body in (*loops, *macros, *calls):
            call = nodes.Call(nodes.Name(_STEP, "load"), [], [], None, None)
            body.insert(0, nodes.ExprStmt(call, lineno=body[0].lineno if body else 1))
        self._steps = 0
        self._template = environment.from_string(tree)

    def render(self, variables: Mapping[str, Any]) -> str:
        """StepLimitError when it does not come to an end; else whatever its expressions raise."""
        self._steps = 0
        return self._template.render(variables)

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise StepLimitError(f"stopped after {MOST_STEPS:,} steps")


class _Environment(ImmutableSandboxedEnvironment):
    """One multiplication or power can take all memory and time, so their operands are limited."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and isinstance(right, int) and right > _LARGEST_EXPONENT:
            raise ValueError(f"a power above {_LARGEST_EXPONENT}")
        if operator == "*":
            _check_repetition(left, right)
            _check_repetition(right, left)
        return super().call_binop(context, operator, left, right)


def _check_repetition(sequence: Any, count: Any) -> None:
    if not isinstance(sequence, (str, list, tuple)) or not isinstance(count, int):
        return
    if len(sequence) * count > LONGEST_REPEATED:
        raise ValueError(f"something repeated to more than {LONGEST_REPEATED:,}")


class _Generation(Extension):
    """{% generation %} marks the assistant's text for training; here it is plain text."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
