/* The replay's clock, with a time that the test moves. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { plainBy, ReplayClock, roundEnds, roundsBy } from "../../../assets/chat/replayclock.js";

const token = (kind) => ["a", kind, null, 0.5, null, null];
const TOKENS = ["a", "a", "c", "p", "a", "b"].map(token);
const ROUNDS = [
  [3, 1000, 2000, 0],
  [1, 0, 1500, 500],
  [2, 500, 2000, 500],
];

test("tokens come at the end of their round", () => {
  const ends = roundEnds(TOKENS, { rounds: ROUNDS });
  assert.deepEqual(
    ends.map(({ at, count }) => [Number(at.toFixed(6)), count]),
    [
      [0.3, 3],
      [0.5, 4],
      [0.8, 6],
    ],
  );
  assert.equal(roundsBy(ends, 0.29), 0);
  assert.equal(roundsBy(ends, 0.31), 1);
  assert.equal(roundsBy(ends, 9), 3);
});

test("an older reply has rounds by its tokens, and their mean time", () => {
  const ends = roundEnds(TOKENS, { stats: { decode_seconds: 6 } });
  assert.deepEqual(
    ends.map(({ at, count }) => [at, count]),
    [
      [2, 3],
      [4, 4],
      [6, 6],
    ],
  );
});

test("a draft that was cut off by the end of the reply is a round, too", () => {
  const ends = roundEnds(["p", "a", "a"].map(token), { stats: { decode_seconds: 2 } });
  assert.deepEqual(ends.at(-1), { at: 2, count: 3 });
});

test("rounds that say less than there is lose no token, and none are made up", () => {
  assert.equal(roundEnds(TOKENS, { rounds: [[2, 1, 1, 1]] }).at(-1).count, 6);
  assert.equal(roundEnds(TOKENS, { rounds: [[200, 1, 1, 1]] }).at(-1).count, 6);
  assert.deepEqual(roundEnds([], {}), []);
});

test("plain decoding writes a token each T(1)", () => {
  assert.equal(plainBy(0, 0.1, 6), 0);
  assert.equal(plainBy(0.3, 0.1, 6), 3);
  assert.equal(plainBy(0.39, 0.1, 6), 3);
  assert.equal(plainBy(99, 0.1, 6), 6);
});

test("the clock keeps its place through stops, jumps and changes of pace", () => {
  let now = 1000;
  const clock = new ReplayClock(10, () => now);
  now += 5000;
  assert.equal(clock.time, 0);
  clock.play();
  now += 2000;
  assert.equal(clock.time, 2);
  clock.setPace(0.25);
  assert.equal(clock.time, 2);
  now += 4000;
  assert.equal(clock.time, 3);
  clock.pause();
  now += 4000;
  assert.equal(clock.time, 3);
  clock.seek(8);
  clock.setPace(4);
  clock.play();
  now += 250;
  assert.equal(clock.time, 9);
  now += 9999;
  assert.equal(clock.time, 10);
  assert.equal(clock.running, true);
  clock.pause();
  clock.play();
  assert.equal(clock.time, 0);
});

test("a jump while it runs goes on from there", () => {
  let now = 0;
  const clock = new ReplayClock(10, () => now);
  clock.play();
  now += 1000;
  clock.seek(5);
  now += 1000;
  assert.equal(clock.time, 6);
  clock.seek(-3);
  assert.equal(clock.time, 0);
});
