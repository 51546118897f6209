/* Colours of code: text and classes only, and tokens keep their spans. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Reply } from "../../../assets/chat/reply.js";
import { isClosed } from "../../../assets/chat/rendering/colouring.js";
import { highlight, piecesOf } from "../../../assets/chat/rendering/highlight.js";
import { cut } from "../../../assets/chat/rendering/syntax.js";
import { newPage } from "../dom.js";

beforeEach(newPage);

const joined = (pieces) => pieces.map(([text]) => text).join("");

const TEXTS = [
  ["python", "\n\n  def f(a):\n    return a < 1 # &amp; <b>"],
  ["html", "<script>alert('x')</script>\n<b onclick=\"x\">&lt;</b>"],
  ["js", "const a = `x ${b + `y ${c}`}`;\t// \u0000 end"],
  ["C++", "int main() { return 0; }"],
  ["json", '{"a": [1, true, null]}'],
  ["md", "# T\n**b** `c` <i>"],
  ["xml", "<".repeat(500)],
  ["js", "((((`${".repeat(300)],
];

for (const [label, text] of TEXTS) {
  test(`${label}: all of ${JSON.stringify(text.slice(0, 40))} and nothing else`, () => {
    const pieces = piecesOf(text, label);
    assert.equal(joined(pieces), text.replaceAll("\0", " "));
    for (const [, classes] of pieces) {
      for (const name of classes) assert.match(name, /^[\w-]+( [\w-]+)*$/);
    }
  });
}

test("unknown labels and long code stay plain", () => {
  for (const label of ["", null, "nothing", "__proto__", "constructor", '"><script>', "auto"]) {
    assert.equal(piecesOf("let a = 1", label), null, label);
  }
  assert.equal(piecesOf(`${"a = 1\n".repeat(4000)}`, "python"), null);
});

function codeOf(text) {
  const reply = new Reply(document.createElement("div"), "rendered");
  const push = (more) => {
    const words = more.match(/.{1,3}|\n/g).map((word, at) => [word, "acbp"[at % 4], null, 0.5]);
    reply.source.push(words);
    reply.draw();
    return reply.element.querySelector("code");
  };
  return { code: push(text), push };
}

const shape = (code) =>
  [...code.querySelectorAll(".token")].map((span) => [
    span.className,
    span.dataset.index,
    span.textContent,
  ]);

test("tokens keep their spans, classes and text when code is coloured", () => {
  const { code } = codeOf('```python\ndef area(r):\n    return 3 * r, "long text"\n```\n');
  const before = shape(code);
  const spans = [...code.querySelectorAll(".token")];
  highlight(code);
  assert.deepEqual(shape(code), before);
  assert.deepEqual([...code.querySelectorAll(".token")], spans);
  const words = (name) => [...code.querySelectorAll(name)].map((one) => one.textContent).join("");
  assert.equal(words(".hljs-keyword"), "defreturn");
  assert.equal(words(".hljs-string"), '"long text"');
  assert.equal(words(".hljs-number"), "3");
});

test("code that grows after it was coloured is coloured as a whole", () => {
  const { code, push } = codeOf("```js\nlet a = 'x");
  highlight(code);
  assert.equal(push("y'; let b = 2;"), code);
  highlight(code);
  const strings = [...code.querySelectorAll(".hljs-string")];
  assert.equal(strings.map((one) => one.textContent).join(""), "'xy'");
  assert.equal(code.textContent, "let a = 'xy'; let b = 2;");
});

test("a fence is closed by its last line only", () => {
  const closed = (text) => isClosed(cut(text)[0]);
  assert.ok(closed("```js\na\n```\n"));
  assert.ok(closed("~~~\na\n~~~"));
  assert.ok(!closed("```js\na\n"));
  assert.ok(!closed("```js"));
  assert.ok(!closed("text"));
});
