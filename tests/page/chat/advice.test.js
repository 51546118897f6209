/* The note below the last message: only below replies, whatever a chat ends with. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Advice } from "../../../assets/chat/advice.js";
import { newPage, settle } from "../dom.js";

let asked, advice;

beforeEach(() => {
  newPage();
  asked = [];
  const kept = () => ({ value: null, get: () => null, set: () => {} });
  advice = new Advice({
    call: (...request) => (asked.push(request), Promise.resolve({ why: "Too slow.", step: "off" })),
    act: () => {},
    offered: kept(),
    closed: kept(),
  });
});

const replyOf = (details) => {
  const notes = document.createElement("div");
  document.body.append(notes);
  return { role: "assistant", details, notes };
};

test("a chat that ends with the user's message gets no note", async () => {
  await advice.consider(1, { role: "user", text: "hello" });
  await advice.consider(1, null);
  assert.deepEqual(asked, []);
});

test("a reply without figures gets no note, a long one without drafts gets the offer", async () => {
  await advice.consider(1, replyOf({ finish: "edited", drafters: [] }));
  assert.deepEqual(asked, []);
  const entry = replyOf({ drafters: [], stats: { emitted: 400, rounds: 400 } });
  await advice.consider(1, entry);
  await settle();
  assert.deepEqual(asked, [["advise", { conversation: 1 }]]);
  assert.match(entry.notes.textContent, /Too slow/);
});
