"""Where chat templates run: Jinja's sandbox, with limits, and with marks on what was typed.

A template comes with a file from anywhere. Jinja's sandbox keeps it from Python's objects. The
limits here catch the common ways of running for ever with a clear word; what they do not catch ends
with the process that renders (engine.text.render_child).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from engine.text.chat_filters import CONCAT, called, filters, spread
from engine.text.marked import Marked, as_text, filled, joined, marked

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
        """functions: what the template may call."""
        environment = _environment()
        environment.filters.update(filters(environment))
        environment.globals.update(functions)
        environment.globals[_STEP] = self._count_step
        tree = _Concatenations().visit(environment.parse(source))
        if any(tree.find_all(nodes.EvalContextModifier)):
            raise TemplateSyntaxError("autoescape is for web pages", 1)
        loops = [node.body for node in tree.find_all(nodes.For)]
        macros = [node.body for node in tree.find_all(nodes.Macro)]
        calls = [node.body for node in tree.find_all(nodes.CallBlock)]
        for body in (*loops, *macros, *calls):
            call = nodes.Call(nodes.Name(_STEP, "load"), [], [], None, None)
            body.insert(0, nodes.ExprStmt(call, lineno=body[0].lineno if body else 1))
        self._steps = 0
        self._template = environment.from_string(tree)

    def render(self, variables: Mapping[str, Any]) -> Marked:
        """StepLimitError when it does not come to an end; else whatever its expressions raise.

        Of the variables, strings that are Marked keep their marks; plain ones are the template's.
        """
        self._steps = 0
        return marked(self._template.render(variables))

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise StepLimitError(f"stopped after {MOST_STEPS:,} steps")


def parsed(source: str) -> nodes.Template:
    """The template as a tree, to be looked at; raises what Jinja raises."""
    return _environment().parse(source)


def _environment() -> _Environment:
    return _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _Generation],
        finalize=as_text,
    )


def _call(args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """As the sandbox calls what a template calls; the result keeps its marks."""
    environment, context, function, *rest = args
    result = ImmutableSandboxedEnvironment.call(environment, context, function, *rest, **named)
    return called(function, (*rest, *named.values()), result)


class _Environment(ImmutableSandboxedEnvironment):
    """One multiplication or power can take all memory and time, so their operands are limited.

    Strings become Marked before anything is done with them that Python would do without marks.
    """

    intercepted_binops = frozenset(("+", "%", "*", "**"))
    concat = staticmethod(joined)
    call = spread(_call)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and isinstance(right, int) and right > _LARGEST_EXPONENT:
            raise ValueError(f"a power above {_LARGEST_EXPONENT}")
        if operator == "*":
            _check_repetition(left, right)
            _check_repetition(right, left)
        return super().call_binop(context, operator, _known(left), _known(right))

    def getattr(self, obj: Any, attribute: str) -> Any:
        return super().getattr(_known(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return super().getitem(_known(obj), argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """str.format, with its own view of what its values may be asked for."""
        wrapper = super().wrap_str_format(value)
        if wrapper is None:
            return None
        pattern = marked(value.__self__)

        def fill(args: Sequence[Any], named: Mapping[str, Any]) -> str:
            return wrapper(*args, **named)

        return spread(lambda args, named: filled(pattern, fill, args, named))


def _known(value: Any) -> Any:
    return marked(value) if isinstance(value, str) else value


def _check_repetition(sequence: Any, count: Any) -> None:
    if not isinstance(sequence, (str, list, tuple)) or not isinstance(count, int):
        return
    if len(sequence) * count > LONGEST_REPEATED:
        raise ValueError(f"something repeated to more than {LONGEST_REPEATED:,}")


class _Concatenations(NodeTransformer):
    """`a ~ b` becomes a filter: Jinja's own code for it loses marks."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        items = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(items, CONCAT, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """{% generation %} marks the assistant's text for training; here it is plain text."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
