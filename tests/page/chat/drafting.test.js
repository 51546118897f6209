/* What the page makes of drafts: the runway, levels of p, sources of copies, rules in words. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { ruleOf } from "../../../assets/chat/almost.js";
import { rangesBefore, runAt, wireTokens } from "../../../assets/chat/copythread.js";
import { levelOf } from "../../../assets/chat/levels.js";
import { rowsOf } from "../../../assets/chat/minimap.js";
import { Runway, staged } from "../../../assets/chat/runway.js";
import { followers, wireNumber } from "../../../assets/shared/wire.js";
import { newPage } from "../dom.js";

beforeEach(newPage);

const token = (text, kind = "a", ghosts = undefined, p = 0.5) =>
  [text, kind, kind === "a" ? 0 : null, p, null, null, ghosts].slice(0, ghosts ? 7 : 6);

test("a round is staged as kept words, what fell, and the target's word", () => {
  const ghosts = [
    [" cat", 0, 0.1, null, 2],
    [" sat", 0, 0.1, null, 3, 0],
    [" dog", 0, 0.1, null, 2],
  ];
  assert.deepEqual(
    staged([token("The"), token(" bird", "c", ghosts)]).map(({ text, fate }) => [text, fate]),
    [
      ["The", "kept"],
      [" cat", "fell"],
      [" sat", "fell"],
      [" bird", "target"],
    ],
  );
  assert.deepEqual(staged([token("plain", "p")]), []);
});

test("the runway leaves out rounds too fast to be seen, and rounds without a draft", () => {
  let now = 0;
  const runway = new Runway(() => now);
  runway.show([token("plain", "p")]);
  assert.equal(runway.element.hasAttribute("hidden") || runway.element.hidden, true);
  runway.show([token("one")]);
  now = 50;
  runway.show([token("two")]);
  assert.equal(runway.element.textContent, "one");
  now = 500;
  runway.show([token("three")]);
  assert.equal(runway.element.textContent, "three");
});

test("levels follow p, and no p is not a low one", () => {
  assert.deepEqual([1, 0.9, 0.5, 0.1, 0.05, 0, null].map(levelOf), [
    ...["sure", "sure", "likely", "open", "surprise", "surprise", "unknown"],
  ]);
});

test("the map has the mean of what stands at each height", () => {
  const replies = [{ top: 50, bottom: 100, tokens: [token("a", "p", undefined, 1), token("b")] }];
  assert.deepEqual(rowsOf(replies, 100, 4), [null, null, 1, 0.5]);
  assert.deepEqual(
    rowsOf([{ top: 0, bottom: 9, tokens: [token("a", "p", undefined, null)] }], 9, 1),
    [null],
  );
});

test("a run covers its tokens and no other; damaged records cover none", () => {
  const copied = [[3, 2, null, 7], "odd", null];
  assert.equal(runAt(copied, 2), null);
  assert.deepEqual(runAt(copied, 4), { first: 3, count: 2, text: null, place: 7 });
  assert.equal(runAt(copied, 5), null);
  for (const odd of [undefined, {}, "x"]) assert.equal(runAt(odd, 0), null);
});

test("a source above is found with the words before it, and every place of it is told", () => {
  const tokens = ["the ", "quick ", "brown ", "fox"].map((text) => token(text));
  const run = { first: 3, count: 1, text: null, place: 4 };
  const user = (text) => ({ role: "user", text });
  const asked = [user("a fox; the quick brown fox")];
  assert.deepEqual(
    rangesBefore(asked, run, tokens).map(({ from, to }) => [from, to]),
    [[23, 26]],
  );
  assert.equal(rangesBefore([...asked, ...asked], run, tokens).length, 2);
  assert.deepEqual(rangesBefore([user("a fox")], run, tokens), []);
});

test("thought and answer are one row of numbers", () => {
  const entry = {
    details: { reasoning: { from: 1, to: 3 } },
    reply: { source: { tokens: ["a", "d"] } },
    thought: { source: { tokens: ["b", "c"] } },
  };
  assert.equal(wireTokens(entry).join(""), "abcd");
  assert.deepEqual(
    [0, 1].map((at) => wireNumber(at, false, entry.details.reasoning)),
    [0, 3],
  );
  assert.deepEqual(
    [0, 1].map((at) => wireNumber(at, true, entry.details.reasoning)),
    [1, 2],
  );
});

test("a rule in words says only what is known", () => {
  const ratio = { greedy: false, coupling: "best", acceptance: "exact" };
  const rejected = (q, depth = 1, ...more) => token("x", "c", [["y", 0, 0.2, q, depth], ...more]);
  assert.match(ruleOf(rejected(0.8), 0, ratio), /min\(1, p\/q\) = 0\.250; the dice said no/);
  assert.match(ruleOf(rejected(0.8, 2), 0, ratio), /as one block/);
  assert.match(ruleOf(rejected(0.8, 1, ["z", 0, 0.1, 0.1, 1]), 1, ratio), /tried in turn/);
  assert.match(ruleOf(rejected(null), 0, ratio), /chance p = 0\.200/);
  assert.match(ruleOf(rejected(0.8), 0, { ...ratio, coupling: "seed" }), /chance p = 0\.200/);
  assert.match(ruleOf(rejected(null), 0, { ...ratio, greedy: true }), /first choice/);
  assert.match(ruleOf(rejected(0.8), 0, { ...ratio, acceptance: "typical" }), /Typical/);
  assert.match(ruleOf(rejected(0.8), 0, undefined), /not stored/);
  const sibling = token("x", "a", [["y", 0, 0.2, null, 1]]);
  assert.match(ruleOf(sibling, 0, ratio), /another draft/);
});

test("what follows a rejected draft falls with it", () => {
  const ghosts = [["a"], ["b", 0, 0, 0, 2, 0], ["c"], ["d", 0, 0, 0, 3, 1]];
  assert.deepEqual(
    followers(ghosts, 0).map(([text]) => text),
    ["b", "d"],
  );
});
