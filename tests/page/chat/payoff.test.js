/* What is said of drafting that paid, or did not. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { footerTextOf, tileOf, whyNot } from "../../../assets/chat/payoff.js";

const PAID = { speed_up: 1.4, low: 1.3, high: 1.52, saved: 3.14, plain: 0.02, why: "" };
const LOST = { speed_up: 0.8, low: 0.7, high: 0.9, saved: -1.2, plain: 0.02, why: "Too dear." };
const YOUNG = { speed_up: null, low: null, high: null, saved: null, plain: 0.02, why: "" };

test("the tile and the footer", () => {
  assert.equal(tileOf(PAID).value, "1.4×");
  assert.equal(tileOf(PAID).range, "1.3–1.5, 3.1 s saved");
  assert.equal(footerTextOf(PAID)[0][0], "1.4× faster than plain here (1.3–1.5), 3.1 s saved");
  assert.equal(footerTextOf(LOST)[0][0], "0.80× as fast as plain here (0.70–0.90), 1.2 s lost");
  const even = { ...PAID, speed_up: 1.02, low: 0.97 };
  assert.match(footerTextOf(even)[0][0], /^1.0× plain decoding's speed, within the noise/);
});

test("too few rounds are not known yet; older replies stay silent", () => {
  assert.equal(tileOf(YOUNG).value, "not known yet");
  assert.deepEqual(footerTextOf(YOUNG), []);
  assert.equal(tileOf(undefined), null);
  assert.deepEqual(footerTextOf(undefined), []);
});

test("why not is said of what is sure, and of no short reply", () => {
  assert.equal(whyNot({ payoff: LOST, stats: { emitted: 90 } }), "Too dear.");
  assert.equal(whyNot({ payoff: LOST, stats: { emitted: 39 } }), "");
  assert.equal(whyNot({ payoff: { ...LOST, high: 1.1 }, stats: { emitted: 90 } }), "");
  assert.equal(whyNot({ payoff: PAID, stats: { emitted: 90 } }), "");
  assert.equal(whyNot({}), "");
});
