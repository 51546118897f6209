/* What the Lab measured, as a table. */

import { h } from "../shared/dom.js";
import { NONE, percent, rate, times } from "../shared/format.js";

const INTERVALS =
  "The line is the 95 % interval; plain decoding's is what its own two replies to a prompt differ by. " +
  "No speed-up is more than the tokens a round allow: what the clock says beyond that is noise. " +
  "A speed-up in brackets is not settled.";

/** Elements for the figures of a measurement, none before there are any. */
export function resultsOf({ figures = [], predictions = [], prompts, state }) {
  const shown = new Set(figures.map((one) => one.label));
  const awaited = predictions.filter(([label]) => !shown.has(label));
  const expected = awaited.map(([label, speedup]) =>
    h("p", {}, `${label}: ${times(speedup)} expected, from short replies.`),
  );
  return [...measuredOf(figures, prompts, state), ...expected];
}

function measuredOf(figures, prompts, state) {
  if (!figures.length) return [];
  const measured = figures.at(-1).prompts; // plain decoding has a set for each drafter
  const categories = Object.keys(figures[0].by_category);
  // One prompt says little of its category.
  const columns = categories.length > 1 && measured >= 2 * categories.length ? categories : [];
  const widest = Math.max(...figures.map((one) => Math.max(one.speedup, intervalOf(one)[1])), 1);
  const names = [
    "drafter",
    "expected",
    "speed-up",
    "95 %",
    null,
    "tokens/s",
    "accepted",
    ...columns,
  ];
  const head = h("tr", {}, ...names.map(columnHead));
  const rows = figures.map((one) => resultRow(one, columns, widest));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows));
  const partial = state === "stopped" ? "Stopped. " : "";
  const all = prompts > measured ? ` of ${prompts}` : "";
  const number = `${measured}${all} ${measured === 1 ? "prompt" : "prompts"} for each drafter`;
  const caption = `${partial}${number}. ${INTERVALS}`;
  const frame = { class: "lab-table", tabindex: "0", role: "region", "aria-label": "Results" };
  return [h("div", frame, table), h("p", { class: "group-note" }, caption)];
}

function columnHead(name) {
  return name === null ? h("td", { class: "lab-bar-cell" }) : h("th", { scope: "col" }, name);
}

function resultRow(one, columns, widest) {
  const place = (value) => `${(100 * value) / widest}%`;
  const bar = h("div", { class: `lab-bar ${one.plain ? "plain" : ""}` });
  bar.append(h("i", { style: `width: ${place(one.speedup)}` }));
  const [low, high] = intervalOf(one);
  if (high > low) {
    const width = `${(100 * (high - low)) / widest}%`;
    bar.append(h("b", { style: `left: ${place(low)}; width: ${width}` }));
  }
  bar.title = titleOf(one);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.label),
    h("td", {}, times(one.predicted)),
    h("td", { title: titleOf(one) }, one.settled ? times(one.speedup) : `(${times(one.speedup)})`),
    h("td", {}, intervalText(one)),
    h("td", { class: "lab-bar-cell" }, bar),
    h("td", {}, rate(one.tokens_per_second)),
    h("td", {}, percent(one.plain ? null : one.acceptance_rate)),
    ...columns.map((name) => h("td", {}, times(one.by_category[name] ?? null))),
  );
}

/** Low and high: around plain decoding's 1, what it differs from itself. */
function intervalOf({ plain, plain_difference: difference, prompts, low, high }) {
  if (plain) return [1 / (1 + (difference ?? 0)), 1 + (difference ?? 0)];
  return prompts > 1 ? [low, high] : [0, 0];
}

function intervalText(one) {
  if (one.plain) {
    return one.plain_difference === null ? NONE : `${percent(one.plain_difference)} apart`;
  }
  return one.prompts > 1 ? `${one.low.toFixed(2)}–${one.high.toFixed(2)}` : NONE;
}

function titleOf({ plain, plain_difference: difference, prompts, low, high, most }) {
  if (plain) {
    return difference === null ? "" : `Two replies to a prompt differed by ${percent(difference)}`;
  }
  const interval = `${low.toFixed(2)} to ${high.toFixed(2)}`;
  const said = prompts > 1 ? interval : "one prompt, so no interval";
  return most === null ? said : `${said}; at most ${times(most)}, by its tokens a round`;
}
