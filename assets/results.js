/* What the Lab measured, as a table. */

import { h } from "./dom.js";
import { percent, rate, times } from "./format.js";

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
  const columns = categories.length > 1 ? categories : [];
  const widest = Math.max(...figures.map((one) => one.high), 1);
  const names = ["", "expected", "speed-up", null, "tokens/s", "accepted", ...columns];
  const head = h("tr", {}, ...names.map(columnHead));
  const rows = figures.map((one) => resultRow(one, columns, widest));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows));
  const partial = state === "stopped" ? "Stopped. " : "";
  const all = prompts > measured ? ` of ${prompts}` : "";
  const caption = `${partial}${measured} prompts for each drafter${all}; the line is the 95 % interval over prompts.`;
  return [h("div", { class: "lab-table" }, table), h("p", { class: "group-note" }, caption)];
}

function columnHead(name) {
  return name === null ? h("td", { class: "lab-bar-cell" }) : h("th", { scope: "col" }, name);
}

function resultRow(one, columns, widest) {
  const place = (value) => `${(100 * value) / widest}%`;
  const bar = h("div", { class: `lab-bar ${one.plain ? "plain" : ""}` });
  bar.append(h("i", { style: `width: ${place(one.speedup)}` }));
  if (!one.plain && one.prompts > 1) {
    const width = `${(100 * (one.high - one.low)) / widest}%`;
    bar.append(h("b", { style: `left: ${place(one.low)}; width: ${width}` }));
    bar.title = `${one.low.toFixed(2)} to ${one.high.toFixed(2)}`;
  }
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.label),
    h("td", {}, times(one.predicted)),
    h("td", {}, times(one.speedup)),
    h("td", { class: "lab-bar-cell" }, bar),
    h("td", {}, rate(one.tokens_per_second)),
    h("td", {}, percent(one.plain ? null : one.acceptance_rate)),
    ...columns.map((name) => h("td", {}, times(one.by_category[name]))),
  );
}
