/* Markdown to elements. marked only cuts the text into tokens; every element is made here,
   from text, so nothing a model writes becomes HTML. Images are named, never fetched.

   A kind of token says how it is drawn:
   open(token, parent, painter)   the element that its parts go into; none: it goes into parent itself
   parts(token)                   the tokens in it
   fits(old, token)               whether what `old` opened can hold this one; none: it cannot
   paint(token, inner, painter)   draw what is no token
   grow(old, token, inner, painter)   go on painting where `old` ended; false: it has to be drawn anew */

import { copyText, h, icon } from "../shared/dom.js";
import { openFormula, paintFormula } from "./rendering/formula.js";

const PART_LINES = 40;
const SAFE_LINK = /^(https?:|mailto:)/i;

const always = () => true;
const tokensOf = (token) => token.tokens ?? [];
const element = (tag) => ({ open: () => h(tag), parts: tokensOf, fits: always });
const ownDirection = { dir: "auto" };
const literal = (textOf) => ({
  paint: (token, parent, painter) => painter.text(parent, textOf(token)),
});

const PLAIN_TEXT = {
  paint: (token, parent, painter) => painter.textWithEntities(parent, token.text ?? token.raw),
  grow: (old, token, parent, painter) => {
    if (old.text === undefined || !token.text?.startsWith(old.text)) return false;
    const added = token.text.slice(old.text.length);
    if (/[&;]/.test(added)) return false; // an entity may have become whole
    painter.text(parent, added);
    return true;
  },
};

/** Text that stands in the source as it is. */
const LITERAL_TEXT = {
  paint: (token, parent, painter) => painter.text(parent, token.text),
  grow: (old, token, parent, painter) => {
    if (!token.text.startsWith(old.text)) return false;
    painter.text(parent, token.text.slice(old.text.length));
    return true;
  },
};

/** The direction of an item is that of its text: its mark stands at the side where that begins. */
const inItem = (token) => (token.type === "paragraph" ? { ...token, inItem: true } : token);

const CHECKBOX = { type: "checkbox", disabled: true };

const HOLDER = { parts: tokensOf, fits: always };

const KINDS = {
  space: {},
  def: {},
  paragraph: {
    open: ({ inItem }) => h("p", inItem ? {} : ownDirection),
    parts: tokensOf,
    fits: (old, token) => old.inItem === token.inItem,
  },
  blockquote: element("blockquote"),
  strong: element("strong"),
  em: element("em"),
  del: element("del"),
  hr: { open: () => h("hr") },
  br: { open: () => h("br") },
  heading: {
    open: ({ depth }) => h(`h${Math.min(6, depth + 2)}`, ownDirection),
    parts: tokensOf,
    fits: (old, token) => old.depth === token.depth,
  },
  list: {
    open: ({ ordered, start }) =>
      h(ordered ? "ol" : "ul", { start: ordered && start !== 1 ? start : null }),
    parts: ({ items }) => items,
    fits: (old, token) => old.ordered === token.ordered && old.start === token.start,
  },
  list_item: {
    open: ({ task }) => h("li", { class: task ? "task" : null, ...ownDirection }),
    parts: (item) => tokensOf(item).map(inItem),
    fits: (old, token) => old.task === token.task,
  },
  code: {
    open: openCode,
    paint: ({ text }, code, painter) => paintLines(text, code, painter),
    fits: (old, token) => old.lang === token.lang && old.codeBlockStyle === token.codeBlockStyle,
    grow: (old, token, code, painter) => {
      if (!token.text.startsWith(old.text) || !old.raw.includes("\n")) return false;
      paintLines(token.text.slice(old.text.length), code, painter);
      return true;
    },
  },
  codespan: { open: () => h("code"), ...literal(({ text }) => text) },
  table: {
    open: openTable,
    parts: ({ rows }) => rows.map((cells) => rowOf(cells, "td")),
    fits: (old, token) =>
      rowOf(old.header).raw === rowOf(token.header).raw && `${old.align}` === `${token.align}`,
  },
  row: {
    open: () => h("tr"),
    parts: ({ cells, tag }) => cells.map((cell) => cellOf(cell, tag)),
    fits: always,
  },
  cell: {
    open: ({ cell, tag }) =>
      h(tag, { style: cell.align ? `text-align: ${cell.align}` : null, ...ownDirection }),
    parts: ({ cell }) => tokensOf(cell),
    fits: always,
  },
  link: { open: openLink, parts: tokensOf },
  image: {
    open: () => h("span", { class: "image-name", title: "Images in replies are not fetched" }),
    ...literal(({ text, href }) => text || href),
  },
  html: literal(({ raw }) => raw),
  formula: {
    open: openFormula,
    paint: paintFormula,
    grow: (old, token) => old.raw.trimEnd() === token.raw.trimEnd(), // the end of its line came
  },
  formula_source: {
    open: ({ block }) => (block ? h("p", { class: "formula-open", dir: "ltr" }) : null),
    ...LITERAL_TEXT,
    fits: (old, token) => old.block === token.block,
  },
  escape: literal(({ text }) => text),
  checkbox: {
    open: ({ checked }) =>
      h("input", { ...CHECKBOX, checked, "aria-label": checked ? "done" : "not done" }),
  },
};

/**
 * Lines of code, some in each part: the browser lays out a part anew as a whole when text comes to
 * it, which takes long for thousands of tokens.
 */
function paintLines(text, code, painter) {
  let part = code.lastElementChild;
  for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    const full = part && Number(part.dataset.lines) >= PART_LINES;
    if (!part || full) code.append((part = h("span", { class: "lines", "data-lines": "0" })));
    painter.text(part, line);
    part.dataset.lines = Number(part.dataset.lines) + (line.endsWith("\n") ? 1 : 0);
  }
}

/** How a token is drawn. */
export const kindOf = (token) => KINDS[token.type] ?? (token.tokens ? HOLDER : PLAIN_TEXT);

function openCode(token, painter) {
  if (/^\s*(```|~~~)/.test(token.raw)) painter.skipLine();
  const language = (token.lang ?? "").split(/\s/)[0];
  const code = h("code", { "data-language": language || null });
  const copy = h("button", { type: "button", class: "copy-code", title: "Copy" });
  copy.append(icon("copy"), h("span", {}, "Copy"));
  copy.addEventListener("click", () => copyText(code.textContent, copy));
  const head = h("div", { class: "code-head" }, h("span", {}, language || "text"), copy);
  return [
    h("div", { class: "code-block", dir: "ltr" }, head, h("pre", { tabindex: "0" }, code)),
    code,
  ];
}

// marked has no tokens for rows and cells, and no text of theirs that could be looked for.
const cellOf = (cell, tag) => ({ type: "cell", raw: cell.text, cell, tag, unplaced: true });

const rowOf = (cells, tag) => ({
  type: "row",
  raw: cells.map(({ text }) => text).join("|"),
  cells,
  tag,
  unplaced: true,
});

function openTable(token, painter, drawAll) {
  const [head, body] = [h("thead"), h("tbody")];
  drawAll([rowOf(token.header, "th")], head, painter);
  painter.skipLine();
  painter.skipLine();
  return [h("div", { class: "table-frame", tabindex: "0" }, h("table", {}, head, body)), body];
}

function openLink({ href }) {
  const isSafe = SAFE_LINK.test(href);
  return h("a", {
    href: isSafe ? href : null,
    target: isSafe ? "_blank" : null,
    rel: isSafe ? "noopener noreferrer nofollow" : null,
    title: isSafe ? href : null,
  });
}
