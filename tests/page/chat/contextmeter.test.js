import assert from "node:assert/strict";
import test from "node:test";

import { ContextMeter } from "../../../assets/chat/contextmeter.js";
import { newPage, settle } from "../dom.js";

const SIZE = { tokens: 1240, limit: 8192, dropped: 0, refused: "", typed: 7 };

/** A meter whose questions are answered by hand. */
function meterOn(box) {
  const root = newPage();
  const asked = [];
  const call = (action, args) =>
    new Promise((resolve, reject) => asked.push({ action, args, resolve, reject }));
  const meter = new ContextMeter(root, {
    call,
    text: () => box.text,
    conversation: () => box.conversation,
  });
  return { meter, asked, element: root.querySelector("#context-meter") };
}

test("the meter shows tokens, and what would be left out or refused", async () => {
  const { meter, asked, element } = meterOn({ text: "hello", conversation: 3 });
  meter.ask();
  assert.deepEqual(asked[0].args, { conversation: 3, text: "hello" });
  asked[0].resolve(SIZE);
  await settle();
  assert.equal(element.hidden, false);
  assert.equal(element.querySelector(".meter-figure").textContent, "1,240 of 8,192");
  assert.match(element.title, /Your message: 7 tokens/);
  meter.show({ ...SIZE, tokens: 9000, dropped: 3 });
  assert.equal(
    element.querySelector(".meter-note").textContent,
    "The 3 oldest messages will be left out",
  );
  meter.show({ ...SIZE, refused: "too long" });
  assert.equal(element.dataset.state, "refused");
  meter.show(null);
  assert.equal(element.hidden, true);
});

test("one question at a time, the answer for another chat is not drawn", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const box = { text: "a", conversation: 1 };
  const { meter, asked, element } = meterOn(box);
  meter.ask();
  box.conversation = 2;
  meter.ask();
  meter.ask();
  assert.equal(asked.length, 1);
  asked[0].resolve(SIZE);
  await Promise.resolve().then(() => {});
  await Promise.resolve();
  assert.equal(element.hidden, true);
  t.mock.timers.tick(1000);
  assert.equal(asked.length, 2);
  assert.equal(asked[1].args.conversation, 2);
});

test("a question that fails hides the meter, and the next one is asked", async () => {
  const { meter, asked, element } = meterOn({ text: "", conversation: null });
  meter.show(SIZE);
  meter.ask();
  asked[0].reject(new Error("gone"));
  await settle();
  assert.equal(element.hidden, true);
  meter.ask();
  assert.equal(asked.length, 2);
});
