"""Replies with formulas, code and text of every direction, for the scripted engine."""

from __future__ import annotations

RENDERING = r"""Euler: $e^{i\pi} + 1 = 0$, and \(\sqrt{a_1 * b_2}\) too; it costs $5 or $6.

$$
\int_0^1 x^2 \, dx = \frac{1}{3}
$$

\begin{align}
a &= b + c \\
d &= e * f
\end{align}

```python
def area(radius):
    # the whole disc
    return 3.14 * radius ** 2, "square metres"
```

```js
const greet = (name) => `Hello ${name}!`; // a template
```

- [x] read the text
- [ ] draw it
  - [x] with formulas $x_1$

مرحبا بالعالم، هذا نص عربي مع `code` في الوسط.

- عنصر أول
- عنصر ثان

> اقتباس قصير

| one column | another column | a third column | a fourth column | a fifth column | the last one |
|---|---|---|---|---|---|
| some longer words | $\frac{a}{b}$ | more longer words | even more words | and some more | end |

The end.
"""

HOSTILE_FORMULAS = (
    r"\href{javascript:window.pwned=1}{x}",
    r"\href{http://example.invalid/}{x}",
    r"\url{http://example.invalid/}",
    r"\includegraphics{http://example.invalid/leak.png}",
    r"\includegraphics[width=9em]{data:image/svg+xml,<svg onload=window.pwned=2>}",
    r"\htmlData{evil=1}{x}",
    r"\htmlId{message-box}{x}",
    r"\htmlClass{offline}{x}",
    r"\htmlStyle{position:fixed;inset:0}{x}",
    r"\text{<img src=x onerror=window.pwned=3>}",
    r"\text{</span><script>window.pwned=4</script>}",
    r"<img src=x onerror=window.pwned=5>",
    r"\gdef\x{\x\x}\x",
    r"\def\a{\a\a}\a",
    r"\gdef\frac#1#2{pwned}\frac12",
    r"\rule{99999em}{99999em}",
    r"\kern{-9999em}\text{over the page}",
    r"\raisebox{-9999em}{x}",
    r"\color{url(http://example.invalid/c)}x",
    r"\textcolor{red;background:url(http://example.invalid/d)}{x}",
    r"\fcolorbox{red}{javascript:1}{x}",
    r"\unknowncommand{x}",
    r"\frac{1}{",
    r"\begin{matrix}a & b",
    r"\left( x",
    "{" * 300 + "x" + "}" * 300,
    r"\sqrt" * 300 + "x",
    r"\tag{\htmlStyle{color:red}{1}} x",
    r"\operatorname{<b>b</b>}",
    r"\verb|<script>window.pwned=6</script>|",
    r"\mathbin{\html@mathml{a}{b}}",
    r"\char`\<\char`\>",
)

HOSTILE_RENDERING = "".join(f"\\[{tex}\\]\n\n" for tex in HOSTILE_FORMULAS) + (
    "```<img/src=x/onerror=window.pwned=7>\n<script>window.pwned=8</script>\n```\n\n"
    "```html\n<script>window.pwned=9</script><b onclick='window.pwned=10'>&lt;i&gt;</b>\n```\n\n"
    '```"onclick="window.pwned=11\nx\n```\n\n```__proto__\nx = 1\n```\n\n```constructor\ny\n```\n\n'
    r"After all: $\frac12$." + "\n"
)
