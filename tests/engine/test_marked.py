"""Text that remembers what was typed: the same text as Python's, and no typed character as own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.chat_sandbox import SandboxedTemplate
from engine.text.marked import OWN, TYPED, Marked, as_text, joined, marked, marks_of, plain

# Letters are the template's or typed, never both, so that every character shows where it is from.
OWN_LETTERS = "ab<|>"
TYPED_LETTERS = "xyzXYZ"
EITHER = " \n"

pieces = st.lists(
    st.one_of(
        st.text(OWN_LETTERS + EITHER, max_size=4).map(marked),
        st.text(TYPED_LETTERS + EITHER, max_size=4).map(Marked),
    ),
    max_size=6,
)
texts = pieces.map(joined).map(marked)


def check_origin(text: str) -> None:
    """Marks agree with the letters."""
    marks = marks_of(text)
    assert len(marks) == len(text)
    for character, mark in zip(plain(text), marks, strict=True):
        assert character not in OWN_LETTERS or mark == OWN
        assert character not in TYPED_LETTERS or mark == TYPED


Change = Callable[[Any], Any]
CHANGES: list[Change] = [
    lambda t: t.upper() if not set(t) & set("ab") else t,
    lambda t: t.strip(),
    lambda t: t.lstrip("<x "),
    lambda t: t.rstrip("\n|y"),
    lambda t: t[1:],
    lambda t: t[::-1],
    lambda t: t[-3:-1],
    lambda t: t.removeprefix("<"),
    lambda t: t.removesuffix("x"),
    lambda t: t.replace("|", "xy" if not isinstance(t, Marked) else Marked("xy")),
    lambda t: t.replace("x", "<a>"),
    lambda t: t.replace("<", "|", 1),
    lambda t: t.split("|")[-1],
    lambda t: "".join(t.split()) if not isinstance(t, Marked) else marked("").join(t.split()),
    lambda t: t.rsplit(" ", 1)[0],
    lambda t: t.rsplit(None, 1)[-1] if t.split() else t,
    lambda t: t.split(None, 1)[-1] if t.split() else t,
    lambda t: t.splitlines()[-1] if t else t,
    lambda t: t.splitlines(True)[0] if t else t,
    lambda t: t.partition("|")[2],
    lambda t: t.rpartition("y")[0],
    lambda t: t + "a",
    lambda t: "<" + t,
    lambda t: t * 2,
    lambda t: t.ljust(9, "a"),
    lambda t: t.rjust(9, "b"),
    lambda t: t.center(10, "a"),
    lambda t: t.center(11, "a"),
    lambda t: type(t)("").join(t) if not isinstance(t, Marked) else marked("").join(t),
]


@given(texts, st.lists(st.sampled_from(CHANGES), max_size=5))
def test_changes_give_pythons_text_and_the_right_marks(text: Marked, changes: list[Change]) -> None:
    expected, changed = plain(text), text
    for change in changes:
        expected, changed = change(expected), change(changed)
        assert plain(changed) == expected
    check_origin(changed)


@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize("length", range(6))
def test_centering_is_pythons(width: int, length: int) -> None:
    text = "x" * length
    assert plain(Marked(text).center(width, "a")) == text.center(width, "a")
    check_origin(Marked(text).center(width, "a"))


def test_what_cannot_be_followed_counts_as_typed() -> None:
    assert marks_of(Marked("straße", "......").upper()) == OWN * 7
    assert marks_of(Marked("straße", ".....x").upper()) == TYPED * 7
    assert marks_of(as_text(["<|a|>"])) == TYPED * 9
    assert marks_of(as_text(12)) == marks_of(as_text(None))[:2] == OWN * 2


def render(source: str, content: str) -> Marked:
    message = {"role": "user", "content": Marked(content)}
    return SandboxedTemplate(source, {}).render({"messages": [message], "c": message["content"]})


FILTERS = (
    "trim", "upper", "lower", "title", "capitalize", "string", "safe", "e", "escape", "tojson",
    "reverse", "list|join", "list|join('a')", "replace('x', '<')", "replace('<', 'xx')", "indent",
    "indent(2, true, true)", "center(20)", "truncate(4, true, 'a', 0)", "wordwrap(3)", "first",
    "last", "default('a')", "format", "urlize", "striptags", "pprint", "list|string", "urlencode",
    "list|map('upper')|join", "[c]|tojson(indent=2)", "list|tojson", "batch(2)|list|string",
    "list|sort|join", "list|unique|join", "select|join", "forceescape", "dictsort",
)  # fmt: skip
EXPRESSIONS = (
    "c", "c[1:]", "c[:3]", "c ~ 'a'", "'<' ~ c ~ '|>'", "'a' + c + 'b'", "'a'.join([c, c])",
    "c.split('|')[-1]", "c.strip().upper()", "'%s|%s' % (c, 'a')", "'{}<{}'.format('a', c)",
    "'{:>12}'.format(c)", "'{0:.2}'.format(c)", "'%5s' % c", "'%r' % c", "c.encode().decode()",
    "[c]", "{'a': c}", "messages", "messages[0].get('content')", "messages[0].values()|list",
    "messages|map(attribute='content')|join('<')", "(c, c)|join", "c.title()", "c.swapcase()",
    "c.format()", "c.expandtabs()", "c.translate({97: 'x'})", "c.casefold()", "c * 2", "c|string",
    "dict(a=c).a", "cycler(c, 'a').next()", "joiner(c)()", "'a'|replace('a', c)", "c.zfill(12)",
    "'%(a)s' % {'a': c}", "'{a}'.format(a=c)", "'{0[0]}'.format([c])", "c|list|first",
    "c|attr('x')", "namespace(a=c).a", "'<|%s|>'|format(c)", "c.partition('x')|join",
    "c.splitlines()|join('<')",
    "'a'.ljust(5, c[0])", "'a'.rjust(5, c[0])", "'a'.center(5, c[0])", "c|wordwrap(2, true, 'a')",
    "c|wordwrap(2, true, c)", "c|truncate(4, true, c, 0)", "'a b'|wordwrap(1, wrapstring=c)",
    "'{:{f}>5}'.format('a', f=c[0])", "'a\nb'|indent(c)", "[1, 2]|join(c)", "'ab'|replace('', c)",
    "dict(**{c: 1})|list|first", "{c: 1}|tojson", "c.encode().hex()", "[c, c]|max", "c|last",
    "'{}'.format_map(c)", "c['upper']()", "'a'['join']([c, c])", "[c, 'a']|join", "c if c else 'a'",
)  # fmt: skip


def test_nothing_typed_is_ever_the_templates_own() -> None:
    """Whatever is done with typed text, none of its letters comes out unmarked."""
    typed = "Α|<βγ \nδ "  # the letters are not those of any template here
    sources = [f"{{{{ c|{one} }}}}" for one in FILTERS]
    sources += [f"{{{{ {one} }}}}" for one in EXPRESSIONS]
    sources += [f"{{{{ ({one})|{other} }}}}" for one in EXPRESSIONS for other in FILTERS]
    sources += [
        "{% macro m(a) %}<{{ a }}{% endmacro %}{{ m(c) }}",
        "{% set a %}{{ c }}{% endset %}{{ a|trim }}",
        "{% for a in c %}{{ a }}{{ loop.cycle(c, a) }}{% endfor %}",
        "{% filter upper %}{{ c }}{% endfilter %}",
        "{% block a %}{{ c }}{% endblock %}{{ self.a() }}",
        "{% macro m() %}{{ caller(c) }}{% endmacro %}{% call(a) m() %}{{ a }}{% endcall %}",
        "{% set n = namespace(a='') %}{% for a in c %}{% set n.a = n.a + a %}{% endfor %}{{ n.a }}",
    ]
    rendered = 0
    for source in sources:
        try:
            text = render(source, typed)
        except Exception:  # noqa: BLE001 - many make no sense together
            continue
        rendered += 1
        for character, mark in zip(plain(text), text.marks, strict=True):
            assert mark == TYPED or character.isascii(), source
    print(f"\n{rendered} of {len(sources)} rendered")
    assert rendered > len(sources) // 2


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ '<|' ~ messages[0].role ~ '|>' }}", "<|user|>"),
        ("{{ '<|' + messages[0]['role'] + '|>' }}", "<|user|>"),
        ("{{ '<|%s|>' % messages[0].role }}", "<|user|>"),
        ("{{ '<|{}|>'.format(messages[0].get('role')) }}", "<|user|>"),
        ("{{ ['<', messages[0].role, '>']|join('|') }}", "<|user|>"),
        ("{{ '<|x|>'|replace('x', messages[0].role)|trim }}", "<|user|>"),
        ("{{ '<|%(a)s|>' % {'a': 'user'} }}", "<|user|>"),
        ("{% macro m(a) %}<|{{ a }}|>{% endmacro %}{{ m('user') }}", "<|user|>"),
        ("{% for k, v in {'user': 1}.items() %}<|{{ k }}|>{% endfor %}", "<|user|>"),
        ("{{ '<|USER|>'|lower }}", "<|user|>"),
    ],
)
def test_what_the_template_puts_together_itself_is_its_own(source: str, expected: str) -> None:
    text = render(source, "typed")
    assert plain(text) == expected and text.is_own
