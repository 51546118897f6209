/* Colours of code: pieces of text and what they are.

   highlight.js writes HTML. It is read where nothing in it can run or be fetched, and only text
   and the classes of spans are taken from it. */

import hljs from "../../vendor/highlight/highlight.min.js";

const MOST = 20_000;

/** [text, class names from the outermost on] of all the code; null if it is left plain: a label
    that is not known, too much text, or text that came back as another one. */
export function piecesOf(text, label) {
  if (text.length > MOST || !label || !hljs.getLanguage(label)) return null;
  // A parser of HTML leaves this character out.
  const readable = text.replaceAll("\0", " ");
  const { value } = hljs.highlight(readable, { language: label, ignoreIllegals: true });
  // White space before the first element would be left out as well.
  const html = `<html><body><span>${value}</span></body></html>`;
  const pieces = [];
  collect(new DOMParser().parseFromString(html, "text/html").body, [], pieces);
  const isWhole = pieces.map(([piece]) => piece).join("") === readable;
  return isWhole ? pieces.filter(([piece]) => piece) : null;
}

function collect(node, classes, pieces) {
  for (const child of node.childNodes) {
    if (child.nodeType === 3) pieces.push([child.data, classes]);
    else {
      const name = child.localName === "span" ? child.className : "";
      collect(child, name ? [...classes, name] : classes, pieces);
    }
  }
}

/** What each code has been coloured as. */
const coloured = new WeakMap();

/** Wrap the text in the token spans of `code`: the spans themselves and their order stay. */
export function highlight(code) {
  const text = code.textContent;
  if (coloured.get(code) === text) return;
  coloured.set(code, text);
  const pieces = piecesOf(text, code.dataset.language);
  if (!pieces) return;
  let [at, done] = [0, 0];
  for (const span of code.querySelectorAll(".token")) {
    let left = span.textContent.length;
    const parts = [];
    while (left > 0) {
      const [piece, classes] = pieces[at];
      const part = piece.slice(done, done + left);
      parts.push(wrapped(part, classes));
      left -= part.length;
      done += part.length;
      if (done === piece.length) [at, done] = [at + 1, 0];
    }
    if (parts.some((part) => part.nodeType === 1) || span.firstElementChild) {
      span.replaceChildren(...parts);
    }
  }
}

function wrapped(text, classes) {
  let node = document.createTextNode(text);
  for (const name of classes.toReversed()) {
    const span = document.createElement("span");
    span.className = name;
    span.append(node);
    node = span;
  }
  return node;
}
