/* Keys of an input method do nothing on the page. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { guardComposition } from "../../../assets/shared/keys.js";

function event(type, more = {}) {
  const told = { type, stopped: false, prevented: false, keyCode: 13, isComposing: false, ...more };
  told.stopPropagation = () => (told.stopped = true);
  told.preventDefault = () => (told.prevented = true);
  return told;
}

function guarded() {
  const listeners = {};
  const steps = [];
  const target = { addEventListener: (type, act, capture) => (listeners[type] = { act, capture }) };
  guardComposition(target, (step) => steps.push(step));
  const tell = (one) => (listeners[one.type].act(one), one);
  return { tell, listeners, over: () => steps.splice(0).forEach((step) => step()) };
}

test("it hears of keys before anything else does", () => {
  const { listeners } = guarded();
  assert.deepEqual(Object.keys(listeners).sort(), ["cancel", "keydown", "submit"]);
  assert.ok(Object.values(listeners).every(({ capture }) => capture === true));
});

for (const [name, more] of [
  ["while composing", { isComposing: true }],
  ["the one that ends it in Safari", { keyCode: 229 }],
]) {
  test(`Enter and Escape ${name} go to nobody, nor do a form or a dialog act`, () => {
    const { tell, over } = guarded();
    const key = tell(event("keydown", more));
    assert.deepEqual([key.stopped, key.prevented], [true, false]); // the input method's it is
    for (const effect of ["submit", "cancel"]) {
      const told = tell(event(effect));
      assert.deepEqual([told.stopped, told.prevented], [true, true]);
    }
    over();
    assert.equal(tell(event("submit")).prevented, false);
  });
}

test("other keys act", () => {
  const { tell } = guarded();
  assert.equal(tell(event("keydown")).stopped, false);
  assert.equal(tell(event("submit")).prevented, false);
});
