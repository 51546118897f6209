/* Whether drafting paid, as the server worked it out (details.payoff): in words, nothing computed. */

import { rate, seconds } from "../shared/format.js";

/** A reply shorter than this is not worth a word about drafts that did not pay. */
const WORTH_A_WORD = 40;

/** Below 1 a tenth is much. */
const digits = (value) => value.toFixed(value < 1 ? 2 : 1);
const factor = (value) => `${digits(value)}×`;

/** The tile: { value, range, title }. null where nothing is known of plain decoding. */
export function tileOf(payoff) {
  if (!payoff) return null;
  const title = `Plain decoding takes ${seconds(payoff.plain)} a token here (${rate(1 / payoff.plain)} tokens/s), as measured and as its late passes were`;
  if (payoff.speed_up === null) return { value: "not known yet", range: "", title };
  const range = `${digits(payoff.low)}–${digits(payoff.high)}`;
  return { value: factor(payoff.speed_up), range: `${range}, ${savedText(payoff.saved)}`, title };
}

function savedText(saved) {
  return saved < 0 ? `${seconds(-saved)} lost` : `${seconds(saved)} saved`;
}

/** [shown, explained] of the footer in a list; an empty one where nothing is known. */
export function footerTextOf(payoff) {
  const tile = tileOf(payoff);
  if (!tile || payoff.speed_up === null) return [];
  const { speed_up: speed, low, high, saved } = payoff;
  const interval = `95% interval: ${low.toFixed(2)} to ${high.toFixed(2)}. ${tile.title}`;
  const range = `${digits(low)}–${digits(high)}`;
  return [[`${factor(speed)} ${paceText(payoff)} (${range}), ${savedText(saved)}`, interval]];
}

function paceText({ speed_up: speed, low, high }) {
  if (low <= 1 && high >= 1) return "plain decoding's speed, within the noise";
  return speed > 1 ? "faster than plain here" : "as fast as plain here";
}

/** Why drafts of a reply did not pay; "" where they did, where that is not sure, or it is short. */
export function whyNot({ payoff, stats }) {
  const sure = payoff && payoff.high !== null && payoff.high < 1;
  return sure && stats?.emitted >= WORTH_A_WORD ? payoff.why : "";
}
