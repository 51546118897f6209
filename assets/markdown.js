/* Markdown to elements. marked only cuts the text into tokens; every element is made here,
   from text, so nothing a model writes becomes HTML. Images are named, never fetched. */

import { copyText, h, icon } from "./dom.js";

const SAFE_LINK = /^(https?:|mailto:)/i;

/** Render one block token of marked into `parent` with the painter of its block. */
export function renderBlock(token, parent, painter) {
  painter.within(token.raw ?? "", () => {
    const render = RENDERERS[token.type] ?? renderOther;
    render(token, parent, painter);
  });
}

function renderAll(tokens, parent, painter) {
  for (const token of tokens ?? []) renderBlock(token, parent, painter);
}

const wrap = (tag) => (token, parent, painter) => {
  const element = h(tag);
  parent.append(element);
  renderAll(token.tokens, element, painter);
};

const nothing = () => {};

const RENDERERS = {
  space: nothing,
  def: nothing,
  paragraph: wrap("p"),
  blockquote: wrap("blockquote"),
  strong: wrap("strong"),
  em: wrap("em"),
  del: wrap("del"),
  hr: (token, parent) => parent.append(h("hr")),
  br: (token, parent) => parent.append(h("br")),
  heading: (token, parent, painter) =>
    wrap(`h${Math.min(6, token.depth + 2)}`)(token, parent, painter),
  list: renderList,
  code: renderCode,
  codespan: (token, parent, painter) => {
    const code = h("code");
    parent.append(code);
    painter.text(code, token.text);
  },
  table: renderTable,
  link: renderLink,
  image: (token, parent, painter) => {
    const label = h("span", { class: "image-name", title: "Images in replies are not fetched" });
    parent.append(label);
    painter.text(label, token.text || token.href);
  },
  html: (token, parent, painter) => painter.text(parent, token.raw),
  escape: (token, parent, painter) => painter.text(parent, token.text),
  checkbox: (token, parent) =>
    parent.append(h("input", { type: "checkbox", disabled: true, checked: token.checked })),
};

function renderOther(token, parent, painter) {
  if (token.tokens) renderAll(token.tokens, parent, painter);
  else painter.textWithEntities(parent, token.text ?? token.raw);
}

function renderList(token, parent, painter) {
  const list = h(token.ordered ? "ol" : "ul");
  if (token.ordered && token.start !== 1) list.start = token.start;
  parent.append(list);
  for (const item of token.items) {
    const entry = h("li", { class: item.task ? "task" : null });
    list.append(entry);
    painter.within(item.raw, () => renderAll(item.tokens, entry, painter));
  }
}

function renderCode(token, parent, painter) {
  if (/^\s*(```|~~~)/.test(token.raw)) painter.skipLine();
  const code = h("code");
  const copy = h("button", { type: "button", class: "copy-code", title: "Copy" });
  copy.append(icon("copy"), h("span", {}, "Copy"));
  copy.addEventListener("click", () => copyText(code.textContent, copy));
  const language = (token.lang ?? "").split(/\s/)[0];
  const head = h("div", { class: "code-head" }, h("span", {}, language || "text"), copy);
  parent.append(h("div", { class: "code-block" }, head, h("pre", { tabindex: "0" }, code)));
  painter.text(code, token.text);
}

function renderTable(token, parent, painter) {
  const row = (cells, tag) => {
    const line = h("tr");
    cells.forEach((cell, column) => {
      const align = token.align[column];
      const element = h(tag, { style: align ? `text-align: ${align}` : null });
      line.append(element);
      renderAll(cell.tokens, element, painter);
    });
    return line;
  };
  const head = h("thead", {}, row(token.header, "th"));
  painter.skipLine();
  painter.skipLine();
  const body = h("tbody", {}, ...token.rows.map((cells) => row(cells, "td")));
  const table = h("table", {}, head, body);
  parent.append(h("div", { class: "table-frame", tabindex: "0" }, table));
}

function renderLink(token, parent, painter) {
  const link = h("a");
  if (SAFE_LINK.test(token.href)) {
    link.href = token.href;
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    link.title = token.href;
  }
  parent.append(link);
  renderAll(token.tokens, link, painter);
}
