/* Numbers as they are shown: none that cannot be. Run with: node --test tests/js/ */

import assert from "node:assert/strict";
import test from "node:test";

import {
  count,
  length,
  percent,
  probability,
  rate,
  seconds,
  share,
  times,
} from "../../../assets/shared/format.js";

test("what is no number is a dash", () => {
  for (const nothing of [null, undefined, NaN, Infinity, -Infinity, 0 / 0]) {
    for (const shown of [count, length, percent, probability, rate, times]) {
      assert.equal(shown(nothing), "–");
    }
  }
  assert.equal(seconds(NaN), "–");
  assert.equal(seconds(null), "");
});

test("nothing rounds to minus nothing", () => {
  assert.equal(percent(-0.001), "0%");
  assert.equal(rate(-0.04), "0.0");
  assert.equal(times(-0.001), "0.00×");
  assert.equal(length(-0), "0.00");
});

test("time is never negative, and never sixty seconds or a thousand milliseconds", () => {
  assert.equal(seconds(-1e-9), "0 ms");
  assert.equal(seconds(-5), "0 ms");
  assert.equal(seconds(0.9994), "999 ms");
  assert.equal(seconds(0.9996), "1.0 s");
  assert.equal(seconds(9.97), "10 s");
  assert.equal(seconds(59.7), "1 min 0 s");
  assert.equal(seconds(119.8), "2 min 0 s");
  assert.equal(seconds(3599.9), "1 h 0 min");
});

test("a few tries are counted, not a percentage", () => {
  assert.equal(share(0, 0), "–");
  assert.equal(share(1, 1), "1 of 1");
  assert.equal(share(3, 4), "3 of 4");
  assert.equal(share(4, 5), "80%");
});
