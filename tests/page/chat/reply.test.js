/* A reply that grows is drawn as it would be drawn at once, and its elements stay. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Reply } from "../../../assets/chat/reply.js";
import { newPage } from "../dom.js";

const LANGUAGE = "```python\ndef f(a):\n    return a < 1\n\n# end &amp; more\n```\n";
const TEXTS = {
  prose:
    "One *small* step & `two` more &lt;b&gt;.\n\nA second paragraph; it has [a](https://x.y).\n",
  heading: "# Title\nText below\n===\n\n---\n",
  code: `Here:\n\n${LANGUAGE}\nand after it.\n`,
  named: "```a\na = a\n```\n",
  escapes: "One \\*star\\* and a\\_b &amp; <b> `c`d*e*f\n",
  open: "```js\nlet a = 1;\nlet b = 2;\n",
  list: "1. one\n2. two\n   - in it **bold**\n   - and\n\n3. loose now\n\n   ```sh\n   ls -l\n   ```\n",
  tasks: "- [ ] open\n- [x] done\n",
  quote: "> a\n> b\n>\n> - c\n> - d\n\nend\n",
  table: "| a | b |\n|---|---:|\n| 1 | `2` |\n| x | **y** |\n|  | z |\n\nend\n",
  formulas: "So $a*b$ and \\(c_1\\), **\\(d^*\\)**; $5.\n\n$$\ne\n$$\nthen\n\\[\nf \\\\ g\n\\]\n",
  unclosed: "A \\(a*b*\nc $d *e*\n\n$$\nx_1 *y*\n\nend\n",
  arabic: "- \u0645\u0631 $x$\n\n- \u0628\n\n  \u062b\n",
  html: '<img src=x onerror="a">\n\n![alt](http://x.y/z.png) <b>\n',
};

/** Wire tokens of a text, some with rejected drafts, some empty. */
function tokensOf(text, pattern = / ?\w+|\n+|[^\w\s]|\s+/g) {
  const words = text.match(pattern);
  return words.flatMap((word, at) => {
    const rejected = at % 3 ? [] : [[["no", 0, 0.1, null, 1]]];
    const token = [word, "apcb"[at % 4], at % 2 ? null : 0, 0.5, null, 1, ...rejected];
    return at % 7 === 3 ? [["", "p", null, 0.5, null, null], token] : [token];
  });
}

function drawn(tokens) {
  const reply = new Reply(document.createElement("div"), "rendered");
  reply.source.push(tokens);
  reply.draw();
  return reply.element;
}

const html = (element) => element.outerHTML; // eslint-disable-line no-restricted-properties

beforeEach(newPage);

function growsAsDrawn(tokens) {
  const reply = new Reply(document.createElement("div"), "rendered");
  tokens.forEach((token, at) => {
    reply.source.push([token]);
    reply.draw();
    const whole = drawn(tokens.slice(0, at + 1));
    assert.equal(html(reply.element), html(whole), JSON.stringify(reply.source.text));
  });
}

for (const [name, text] of Object.entries(TEXTS)) {
  test(`${name}: drawn token by token as drawn at once`, () => growsAsDrawn(tokensOf(text)));

  test(`${name}: the same with tokens that are cut anywhere`, () => {
    for (const length of [2, 5, 9]) {
      growsAsDrawn(tokensOf(text, new RegExp(`[^]{1,${length}}`, "g")));
    }
  });
}

test("links whose definitions come below them are drawn in the end", () => {
  const tokens = tokensOf("See [one] and [two].\n\n[one]: https://a.b\n\nend\n");
  const reply = new Reply(document.createElement("div"), "rendered");
  for (const token of tokens) {
    reply.source.push([token]);
    reply.draw();
  }
  reply.redraw();
  assert.equal(html(reply.element), html(drawn(tokens)));
  assert.equal(reply.element.querySelectorAll("a").length, 1);
});

test("code that grows keeps its elements and paints only what was added", () => {
  const reply = new Reply(document.createElement("div"), "rendered");
  reply.source.push(tokensOf("```js\nlet a = 1;\n"));
  reply.draw();
  const code = reply.element.querySelector("code");
  const spans = [...code.children];
  reply.source.push(tokensOf("let b = 2;\nlet c"));
  reply.draw();
  assert.equal(reply.element.querySelector("code"), code);
  assert.ok(spans.every((span) => span.parentNode === code || span.className.includes("ghost")));
  assert.equal(code.textContent, "let a = 1;\nlet b = 2;\nlet c");
});

test("a list that grows keeps the items before the last", () => {
  const reply = new Reply(document.createElement("div"), "rendered");
  reply.source.push(tokensOf("- one\n- two\n"));
  reply.draw();
  const [first, second] = reply.element.querySelectorAll("li");
  reply.source.push(tokensOf("- three\n- fo"));
  reply.draw();
  const items = [...reply.element.querySelectorAll("li")];
  assert.equal(items.length, 4);
  assert.equal(items[0], first);
  assert.equal(items[1], second);
});
