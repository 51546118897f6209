/* When each token of a reply came: its rounds on a clock that can be stopped, turned and paced. */

import { KIND } from "../shared/wire.js";

const UNIT = 1e-4; // seconds, as in app/round_times.py
const ACCEPTED = "a";

/**
 * The ends of all rounds: [{ at, count }], seconds since the first began and tokens there by then.
 * A reply that has no times of its rounds takes their mean for each.
 */
export function roundEnds(tokens, { rounds, stats }) {
  const sizes = rounds ? rounds.map(([size]) => size) : roundSizes(tokens);
  const mean = (stats?.decode_seconds ?? 0) / Math.max(1, sizes.length);
  let at = 0;
  let count = 0;
  const ends = sizes.map((size, number) => {
    at += rounds ? secondsOf(rounds[number]) : mean;
    count = Math.min(count + size, tokens.length);
    return { at, count };
  });
  if (count < tokens.length) ends.push({ at, count: tokens.length });
  return ends;
}

const secondsOf = ([, draft, verify, other]) => UNIT * (draft + verify + other);

/** A round ends with the token that the target itself chose. */
function roundSizes(tokens) {
  const sizes = [];
  let size = 0;
  for (const token of tokens) {
    size += 1;
    if (token[KIND] === ACCEPTED) continue;
    sizes.push(size);
    size = 0;
  }
  return size ? [...sizes, size] : sizes;
}

/** The rounds that are over at this time. */
export function roundsBy(ends, time) {
  let low = 0;
  let high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle].at <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Tokens that plain decoding has written by this time, at `plain` seconds each. */
export const plainBy = (time, plain, total) => Math.min(total, Math.floor(time / plain + 1e-6)); // what is due just now is there

/** Seconds of the replay. now: a clock of milliseconds, handed in. */
export class ReplayClock {
  constructor(end, now) {
    this.end = end;
    this.now = now;
    this.pace = 1;
    this.held = 0;
    this.since = null;
  }

  get running() {
    return this.since !== null;
  }

  get time() {
    const run = this.running ? (this.pace * (this.now() - this.since)) / 1000 : 0;
    return Math.min(this.end, this.held + run);
  }

  /** From the beginning, if it is at its end. */
  play() {
    if (this.time >= this.end) this.held = 0;
    this.since = this.now();
  }

  pause() {
    this.held = this.time;
    this.since = null;
  }

  /** Goes on from there if it ran. */
  seek(time) {
    this.held = Math.min(Math.max(0, time), this.end);
    if (this.running) this.since = this.now();
  }

  setPace(pace) {
    this.seek(this.time);
    this.pace = pace;
  }
}
