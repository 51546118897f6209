"""Chat templates that want all memory or time, or break what compiles them, by kind."""

from __future__ import annotations

WIDTHS = (10**9, 2**31 - 1, 10**10, 10**18)
_WIDE = (
    "{{ 'x'|center(W) }}",
    "{{ 'x'.center(W) }}",
    "{{ 'x'.ljust(W) }}",
    "{{ 'x'.rjust(W) }}",
    "{{ '1'.zfill(W) }}",
    "{{ '\t'.expandtabs(W) }}",
    "{{ '%0Wd'|format(1) }}",
    "{{ '%Ws' % 1 }}",
    "{{ '%.Wf' % 1.5 }}",
    "{{ '{:>W}'.format(1) }}",
    "{{ '{:0W}'.format(1) }}",
    "{{ '{:{}}'.format('x', W) }}",
    "{{ 'a\nb'|indent(W) }}",
    "{{ [1]|tojson(indent=W) }}",
    "{{ [1]|slice(W)|list }}",
    "{{ messages[0].content|center(W) }}",
)
_DOUBLE = (
    "x ~ x",
    "x + x",
    "x * 2",
    "[x, x]|join",
    "''.join([x, x])",
    "x.replace('x', 'xx')",
    "x|replace('x', 'xx')",
    "'%s%s'|format(x, x)",
    "'%s%s' % (x, x)",
    "'{0}{0}'.format(x)",
    "[x, x]|tojson",
    "[x, x]|string",
)
MANY = "{% set many = range(99999)|list %}"
LETTERS = "{% set many = ['a'] * 900000 %}"
WORDS = "{% set text = 'a ' * 400000 %}"
_ENDLESS = (
    "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x ** 2 %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for i in range(9) %}{% set ns.x = ns.x ** 64 %}{% endfor %}",
    "{{ lipsum(n=10**7) }}",
    "{{ lipsum(n=10**7, html=false)|length }}",
    "{{ lipsum(n=2, min=10**8, max=10**8 + 1) }}",
    MANY + "{% for i in many %}{{ -1 in many }}{% endfor %}",
    MANY + "{% for i in many %}{{ many|sum }}{% endfor %}",
    MANY + "{% for i in many %}{{ many|reverse|list|length }}{% endfor %}",
    "{% set text = 'ab' * 400000 %}{% for i in range(90000) %}{{ 'ba'*9 in text }}{% set t = "
    "text|upper %}{% endfor %}",
    WORDS + "{% for i in range(9000) %}{% set t = text.split() %}{% endfor %}",
    WORDS + "{% for i in range(9000) %}{% set t = text|wordcount %}{% endfor %}",
    "{% set text = '<a ' * 200000 %}{% for i in range(900) %}{{ text|striptags }}{% endfor %}",
    "{% set text = 'a.b ' * 200000 %}{% for i in range(900) %}{{ text|urlize }}{% endfor %}",
    LETTERS + "{% for i in range(9000) %}{% set t = many|join %}{% endfor %}",
    LETTERS + "{% for i in range(9000) %}{% set t = many|unique|list %}{% endfor %}",
    LETTERS + "{% for i in range(9000) %}{% set t = many|tojson %}{% endfor %}",
    "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "{% macro two(n) %}{% if n %}{{ two(n-1) ~ two(n-1) }}{% endif %}{% endmacro %}{{ two(60) }}",
    "{% for i in cycler('a', 'b')|list %}{% endfor %}{% for a in range(99999) %}"
    "{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
)
_NESTS = (
    ("{{ ", "(", "1", ")", " }}"),
    ("{{ ", "[", "1", "]", " }}"),
    ("{{ ", "{1:", "1", "}", " }}"),
    ("{{ ", "-", "1", "", " }}"),
    ("{{ ", "not ", "1", "", " }}"),
    ("{{ 1", "+1", "", "", " }}"),
    ("{{ 1", "**1", "", "", " }}"),
    ("{{ 1", " ~ 1", "", "", " }}"),
    ("{{ 1", " and 1", "", "", " }}"),
    ("{{ 1", " if 1 else 1", "", "", " }}"),
    ("{{ 'a'", "|upper", "", "", " }}"),
    ("{{ a", ".a", "", "", " }}"),
    ("{{ a", "[0]", "", "", " }}"),
    ("{{ a", "()", "", "", " }}"),
    ("", "{% if 1 %}", "x", "{% endif %}", ""),
    ("", "{% for a in [1] %}", "x", "{% endfor %}", ""),
    ("", "{% macro m() %}", "x", "{% endmacro %}", ""),
    ("", "{% filter upper %}", "x", "{% endfilter %}", ""),
    ("", "{% set a %}", "x", "{% endset %}", ""),
    ("", "{% generation %}", "x", "{% endgeneration %}", ""),
    ("{% if 1 %}", "{% elif 1 %}", "x", "", "{% endif %}"),
)
_DEPTHS = (600, 20_000)
_BROKEN = (
    "{% break %}",
    "{% continue %}",
    "{% if 1 %}{% break %}{% endif %}",
    "{% for a in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% macro m(a, a) %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ dict(a=1, a=2) }}",
    "{{ dict(**1) }}",
    "{{ dict(*1) }}",
    "{% call(a, a) m() %}{% endcall %}",
    "{% block a %}{% endblock %}{% block a %}{% endblock %}",
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if %}{% endif %}",
    "{{ messages|no_such_filter }}",
    "{{ messages is no_such_test }}",
    "{{ '",
    "{{ 1 2 }}",
    "{{ ''' }}",
    "{% set %}",
    "{% set a.b = 1 %}",
    "{% set 1 = 2 %}",
    "{% for 1 in [1] %}{% endfor %}",
    "{% nonsense %}",
    "{% include 'a' %}",
    "{% import 'a' as a %}",
    "{% extends 'a' %}",
    "{% autoescape true %}{{ messages }}{% endautoescape %}",
    "{{ 1 / 0 }}",
    "{{ 1 % 0 }}",
    "{{ none.a.b }}",
    "{{ missing.a }}",
    "{{ messages[99].content }}",
    "{{ 'a' + 1 }}",
    "{{ '%d' % 'x' }}",
    "{{ '{}'.format() }}",
    "{{ ''.__class__.__mro__ }}{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.append({}) }}",
    "{{ raise_exception.__globals__['os'].name }}",
    "{{ raise_exception('no') }}",
    "{{ range(10**9) }}",
    "{{ 'x' * 10**10 }}",
    "{{ [0] * 10**9 }}",
    "{{ 10**100000000 }}",
    "{{ [1, 'a']|sort }}",
    "{{ messages|sum }}",
    "{{ messages|map('no_such_filter')|list }}",
    "{{ 'a'|attr() }}",
    "{{ 'é'.encode('ascii') }}",
    "{{ [messages.items]|tojson }}",
    "{{ strftime_now(1) }}",
    "{{ 3|round(1, 'odd') }}",
    "{{ cycler() }}",
    "{{ '\\ud800'|upper|tojson }}{{ none.a.b }}",
)
_RECURSIVE = (
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% macro m(n) %}{{ [n]|map('string')|join ~ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "{% macro m() %}{% call m() %}{% endcall %}{{ caller() if caller }}{% endmacro %}{{ m() }}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
)
_LONG = (
    "{% for i in range(99000) %}{{ 'x' * 100 }}{% endfor %}",
    "{{ ('x' * 999999) ~ ('x' * 999999)|join('yyyyyyyyyy') }}",
    "{% set x = 'x' * 900000 %}" + "{{ x }}" * 10,
)


def _doubling(expression: str) -> list[str]:
    unrolled = "{% set x = " + expression + " %}"
    kept = expression.replace("x", "ns.x").replace("'ns.x", "'x").replace("ns.xns.x", "xx")
    return [
        "{% set x = 'xxxxxxxx' %}" + unrolled * 40 + "{{ x }}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = "
        + kept
        + " %}{% endfor %}{{ ns.x }}",
    ]


def _nested(start: str, opening: str, middle: str, closing: str, end: str, depth: int) -> str:
    return start + opening * depth + middle + closing * depth + end


MUST_FAIL: dict[str, list[str]] = {
    "wide": [form.replace("W", str(width)) for form in _WIDE for width in WIDTHS],
    "doubling": [template for one in _DOUBLE for template in _doubling(one)],
    "endless": list(_ENDLESS),
    "broken": list(_BROKEN),
    "recursive": list(_RECURSIVE),
    "long": list(_LONG),
}
"""What cannot be rendered within any sensible limits."""

DEEP = [_nested(*nest, depth) for nest in _NESTS for depth in _DEPTHS]
"""What an interpreter may or may not manage; both are right, as long as it is said."""
