/* Thoughts apart from the answer: in a stored reply as in one that streams. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { parted, Thought } from "../../../assets/chat/thought.js";
import { newPage } from "../dom.js";

const tokens = (...words) => words.map((word) => [word, "p", null, 1, null, null]);
const texts = (list) => list.map(([text]) => text).join("");

beforeEach(newPage);

test("tokens are parted wherever the piece begins", () => {
  const all = tokens("", "so ", "what", "", "Yes", "!");
  const range = { from: 0, to: 4, seconds: 1 };
  for (let cut = 0; cut <= all.length; cut += 1) {
    const first = parted(all.slice(0, cut), 0, range);
    const second = parted(all.slice(cut), cut, range);
    assert.equal(texts([...first.thought, ...second.thought]), "so what");
    assert.equal(texts([...first.answer, ...second.answer]), "Yes!");
  }
});

test("without a range, or with a damaged one, all is the answer", () => {
  for (const range of [undefined, null, {}, "x", { from: 0 }]) {
    assert.equal(texts(parted(tokens("a", "b"), 0, range).answer), "ab");
  }
});

test("a closed fold shows its last line while it grows, then how long it took", () => {
  const thought = new Thought("rendered", () => {});
  thought.push(tokens("", "first\n", "second ", "line\n"), { from: 0, to: 4, seconds: 12.2 });
  const said = () => thought.element.querySelector("summary").textContent;
  assert.match(said(), /^Thinking… 12 s · 4 tokenssecond line$/);
  assert.equal(thought.body.childNodes.length, 0);
  thought.end({ from: 0, to: 4, seconds: 12.2 });
  assert.match(said(), /^Thought for 12 s · 4 tokens$/);
});

test("a fold with nothing in it is not shown", () => {
  const thought = new Thought("rendered", () => {});
  thought.push(tokens("", "\n\n", ""), { from: 0, to: 3, seconds: 0.1 });
  assert.equal(thought.element.hasAttribute("hidden"), true);
});

test("the button is pressed once and goes with the thought, which tells what ended it", () => {
  let asked = 0;
  const thought = new Thought(
    "rendered",
    () => {},
    () => (asked += 1),
  );
  thought.push(tokens("so"), { from: 0, to: 1, seconds: 2 });
  const button = thought.element.querySelector(".answer-now");
  button.click();
  button.click();
  assert.equal(asked, 1);
  thought.end({ from: 0, to: 1, seconds: 2, ended: "asked" });
  assert.equal(thought.element.querySelector(".answer-now"), null);
  assert.match(thought.summary.textContent, /^Thought for 2(\.0)? s, ended by you/);
  thought.end({ from: 0, to: 1, seconds: 2, ended: "budget" });
  assert.match(thought.summary.textContent, /ended by the budget/);
  thought.end({ from: 0, to: 1, seconds: 2, ended: "something else" });
  assert.match(thought.summary.textContent, /^Thought for 2(\.0)? s ·/);
});

test("thoughts of another program have no button and no ending", () => {
  const thought = new Thought("rendered", () => {});
  thought.showText("so it goes");
  assert.equal(thought.element.querySelector(".answer-now"), null);
  assert.equal(thought.summary.textContent.trim(), "Thoughts");
});

test("thoughts that another program kept as text hold none of the reply's tokens", () => {
  newPage();
  const thought = new Thought("rendered", () => {});
  thought.showText("It is wide.");
  assert.equal(thought.count, 0);
  assert.match(thought.element.textContent, /Thoughts/);
  assert.equal(thought.element.querySelector(".thought-line"), null);
});
