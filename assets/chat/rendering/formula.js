/* A formula: what KaTeX makes of it, and the tokens it was written with.

   KaTeX puts text in another order and shows some of it twice, so no token can be found in it: the
   formula is one piece, which says how its tokens came about and shows them when it is clicked. */

import "./self.js";
import "../../vendor/katex/katex.min.js";
import { h } from "../../shared/dom.js";
import { count, probability } from "../../shared/format.js";
import { KIND, TARGET_P } from "../../shared/wire.js";

const OPTIONS = {
  throwOnError: false,
  trust: false, // no links, images or attributes
  strict: "ignore",
  maxSize: 20,
  maxExpand: 1000,
};
const MOST_LEVELS = 400; // a browser lays out elements in each other by recursion
const MOST_KEPT = 1000;

/** Typeset formulas by their source: a block that is drawn anew does not typeset them again. */
const kept = new Map();

/** The element, and the one in it that the tokens of the source go into. */
export function openFormula({ tex, display }) {
  const { node, problem } = typeset(tex, display);
  const source = h("span", { class: "formula-source", dir: "ltr", "aria-hidden": "true" });
  const shown = h("span", { class: "formula-shown" }, node.cloneNode(true));
  const name = `formula${display ? " display" : ""}${problem ? " failed" : ""}`;
  const formula = h(
    "span",
    { class: name, role: "group", tabindex: "0", dir: "ltr", title: problem },
    shown,
    source,
  );
  if (problem) source.removeAttribute("aria-hidden");
  else letSourceBeShown(formula, shown, source);
  return [formula, source];
}

/** Lay out its tokens and say how they came about. */
export function paintFormula({ raw }, source, painter) {
  painter.text(source, raw.trimEnd());
  const spans = [...source.querySelectorAll(".token")];
  const [from, to] = [spans[0], spans.at(-1)].map((span) => Number(span.dataset.index));
  const tokens = painter.source.tokens.slice(from, to + 1);
  const formula = source.parentNode;
  formula.dataset.from = from;
  formula.dataset.to = to;
  const accepted = tokens.filter((token) => token[KIND] === "a").length;
  formula.setAttribute("style", `--accepted: ${Math.round((100 * accepted) / tokens.length)}%`);
  const summary = summaryOf(tokens, accepted);
  formula.setAttribute("aria-label", `Formula. ${summary}`);
  formula.title = formula.title ? `${formula.title}. ${summary}` : summary;
}

function summaryOf(tokens, accepted) {
  const known = tokens.map((token) => token[TARGET_P]).filter((p) => typeof p === "number");
  const least = known.length ? `, least p ${probability(Math.min(...known))}` : "";
  return `${count(accepted)} of ${count(tokens.length)} tokens accepted from drafts${least}. Click or press Enter for its source.`;
}

function letSourceBeShown(formula, shown, source) {
  const toggle = () => {
    const isShown = formula.classList.toggle("open");
    source.setAttribute("aria-hidden", String(!isShown));
  };
  shown.addEventListener("click", toggle);
  formula.addEventListener("keydown", (event) => {
    if (event.target !== formula || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    toggle();
  });
}

/** { node, problem }: a problem says why it cannot be typeset. */
function typeset(tex, display) {
  const key = `${display} ${tex}`;
  if (!kept.has(key)) {
    if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value);
    kept.set(key, render(tex, display));
  }
  return kept.get(key);
}

function render(tex, display) {
  const node = h("span");
  try {
    // Definitions of one formula would stay in a shared object of macros.
    globalThis.katex.render(tex, node, { ...OPTIONS, displayMode: display, macros: {} });
  } catch (error) {
    if (!isTooDeep(error)) throw error;
    return { node: h("span"), problem: "This formula is nested too deeply to be typeset" };
  }
  if (levels(node) > MOST_LEVELS) {
    return { node: h("span"), problem: "This formula is nested too deeply to be typeset" };
  }
  const failed = node.querySelector(".katex-error");
  if (failed) return { node: h("span"), problem: failed.getAttribute("title") };
  return { node, problem: null };
}

/** What engines say when calls are nested too deeply; its name is another one in Firefox. */
const isTooDeep = (error) => error instanceof RangeError || error.name === "InternalError";

function levels(root) {
  let most = 0;
  const open = [[root, 0]];
  while (open.length) {
    const [node, level] = open.pop();
    most = Math.max(most, level);
    for (const child of node.childNodes) open.push([child, level + 1]);
  }
  return most;
}
