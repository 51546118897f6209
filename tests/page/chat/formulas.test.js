/* Formulas: which text is one, what KaTeX may do with it, and the tokens it was written with. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Reply } from "../../../assets/chat/reply.js";
import { cut } from "../../../assets/chat/rendering/syntax.js";
import { newPage, press } from "../dom.js";

beforeEach(newPage);

/** Formulas of a text: inline ones as they are, others and those that are open with a mark. */
function formulasIn(text) {
  const found = [];
  const visit = (tokens) => {
    for (const token of tokens) {
      if (token.type === "formula") found.push((token.display ? "D " : "") + token.tex);
      if (token.type === "formula_source") found.push(`? ${token.text}`);
      visit(token.tokens ?? []);
      visit(token.items ?? []);
      if (token.type === "table") for (const cells of [token.header, ...token.rows]) visit(cells);
    }
  };
  visit(cut(text));
  return found;
}

const FORMULAS = {
  "a $x*y*z$ b": ["x*y*z"],
  "then \\(a*b\\) and *c* \\(d_1 e_1\\)": ["a*b", "d_1 e_1"],
  "in line \\[x\\] and $$y$$ too": ["D x", "D y"],
  $$x$$: ["D x"],
  "$$\nx_1 * y\\\\\nz\n$$\nafter": ["D x_1 * y\\\\\nz"],
  "text\n\\[\nx\n\\]\n": ["D x"],
  "text\n\\begin{align*}\na&=b\n\\end{align*}\n": ["D \\begin{align*}\na&=b\n\\end{align*}"],
  "**so \\(x^*\\)** and **$y^*$**": ["x^*", "y^*"],
  "# $a$\n\n- $b$\n\n> $c$\n\n| h |\n|---|\n| $d$ |\n": ["a", "b", "c", "d"],
  "($y$), $n$-th, '$z$' $\\$5$": ["y", "n", "z", "\\$5"],
  "- a\n  $$\n  y\n  $$\n": ["D y"],
};

for (const [text, expected] of Object.entries(FORMULAS)) {
  test(`formulas of ${JSON.stringify(text)}`, () => assert.deepEqual(formulasIn(text), expected));
}

const PLAIN = [
  "it costs $5 and $6, or US$5",
  "from $5 to $10, $5-$6",
  "between $5 and 10$ only",
  "a$x$ and $x$5 and x_$y$ and $x$_",
  "$ x$ and $x $ and $$",
  "$a\nb$",
  "`$a$` and `\\(b\\)`",
  "$a `b$` c",
  "```\n$$\nx\n$$\n\\(y\\)\n```\n",
  "    $$\n    x\n    $$\n",
  "\\$x\\$ and \\\\(x\\\\)",
  "[a](https://x.y/$b$) https://x.y/$b$",
];

for (const text of PLAIN) {
  test(`no formula in ${JSON.stringify(text)}`, () => assert.deepEqual(formulasIn(text), []));
}

test("what nobody has closed stays as it is written, to the end of its paragraph", () => {
  assert.deepEqual(formulasIn("$$\na*b*c\n\n*next* $y$"), ["? $$\na*b*c", "y"]);
  assert.deepEqual(formulasIn("x \\(a*b*c\nnext $y$"), ["? \\(a*b*c", "y"]);
  assert.deepEqual(formulasIn("\\begin{align}\na_1"), ["? \\begin{align}\na_1"]);
  assert.deepEqual(formulasIn("$$\na\n```\nb\n$$\n```"), ["? $$\na"]);
});

const wire = (text) =>
  text.match(/\w+|\s+|[^\w\s]/g).map((word, at) => [word, "ac"[at % 2], null, (at + 1) / 100]);

function drawn(text) {
  const reply = new Reply(document.createElement("div"), "rendered");
  reply.source.push(wire(text));
  reply.draw();
  return reply.element;
}

test("a formula is one piece that says how its tokens came about", () => {
  const element = drawn("Then $a+b$ holds.");
  const formula = element.querySelector(".formula");
  assert.equal(formula.dataset.from, "2");
  assert.equal(formula.dataset.to, "6");
  assert.match(formula.title, /^3 of 5 tokens accepted from drafts, least p 0\.030\./);
  assert.match(formula.getAttribute("style"), /--accepted: 60%/);
  assert.ok(formula.querySelector(".katex math"));
  const source = formula.querySelector(".formula-source");
  assert.equal(source.textContent, "$a+b$");
  assert.equal(source.querySelectorAll(".token").length, 5);
  const after = [...element.querySelectorAll(".token")].at(-1);
  assert.equal(after.textContent, ".");
});

test("a click or Enter shows the source and hides it again", () => {
  const formula = drawn("$x$").querySelector(".formula");
  const source = formula.querySelector(".formula-source");
  assert.equal(source.getAttribute("aria-hidden"), "true");
  formula.querySelector(".formula-shown").click();
  assert.ok(formula.classList.contains("open"));
  assert.equal(source.getAttribute("aria-hidden"), "false");
  press(formula, "Enter");
  assert.ok(!formula.classList.contains("open"));
});

test("a closed formula is neither drawn nor typeset again while the text grows", (context) => {
  const render = context.mock.method(globalThis.katex, "render");
  const reply = new Reply(document.createElement("div"), "rendered");
  const seen = new Set();
  for (const token of wire("So $q_7$ and *then* \\(q_8\\).\n\n$$\nq_9\n$$\n\nThe end *of* it.")) {
    reply.source.push([token]);
    reply.draw();
    for (const formula of reply.element.querySelectorAll(".formula")) seen.add(formula);
  }
  reply.redraw();
  assert.deepEqual(
    render.mock.calls.map((call) => call.arguments[0]),
    ["q_7", "q_8", "q_9"],
  );
  assert.equal(seen.size, 3);
});

test("what cannot be typeset shows its source and says why", () => {
  for (const tex of ["\\frac{1}{", "\\sqrt".repeat(900) + "x", "\\gdef\\x{\\x\\x}\\x"]) {
    const formula = drawn(`$$${tex}$$`).querySelector(".formula");
    assert.ok(formula.classList.contains("failed"), tex.slice(0, 20));
    assert.ok(!formula.querySelector(".katex"));
    assert.match(formula.title, /KaTeX|nested/);
    assert.equal(formula.querySelector(".formula-source").textContent, `$$${tex}$$`);
  }
});

test("a definition of one formula is not known to the next", () => {
  const [first, second] = drawn("$\\gdef\\mine{x}\\mine$ and $\\mine$").querySelectorAll(
    ".formula",
  );
  assert.ok(!first.querySelector("[style*='color']"));
  assert.ok(second.querySelector("[style*='color']"), "an unknown command is shown in red");
});
