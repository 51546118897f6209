/* Cuts a text into tokens: marked's, and formulas.

   A formula comes before escapes and emphasis, which would eat what is in it, and after code.
   { type: "formula", raw, tex, display }       a whole one
   { type: "formula_source", raw, text, block } one that has begun: it stays as it is written

   Formulas hold no empty line: one that nobody closes ends with its paragraph. */

import { Lexer, Marked } from "../../vendor/marked/marked.esm.js";

const MOST_INLINE = 2000;
const MOST_DISPLAY = 5000;

const CLOSERS = { $$: "$$", "\\[": "\\]" };
const DISPLAY = /^ {0,3}(\$\$|\\\[|\\begin\{((?:align|alignat|equation|gather)\*?)\})/;
const DISPLAY_START = /\n {0,3}(?:\$\$|\\\[|\\begin\{(?:align|equation|gather))|\n[ \t]*\n/;
const PARAGRAPH_END = /\n[ \t]*(?=\n)|\n {0,3}(?=```|~~~)/;

const BEFORE_DOLLAR = /[\p{L}\p{N}_$\\]$/u;
const DOLLAR =
  /^\$(?![\s$])((?:\\[^\n]|[^$\\`\n])*[^\s$\\`]|(?:\\[^\n]|[^$\\`\n])*\\[^\s])\$(?![\p{L}\p{N}_$])/u;
const PRICE = /^[\d.,]+ +(?:\p{L}{2,}|[^\s]+ +\p{L}{2,})/u;
const INLINE_CLOSERS = { "\\(": "\\)", "\\[": "\\]", $$: "$$" };
const INLINE_START = /\\[([]|\$|[\\<!`*[]/g;

/** One that stands by itself; up to the end of its paragraph while it is not closed. */
function displayFormula(src) {
  const opened = DISPLAY.exec(src);
  if (!opened) return undefined;
  const [opening, mark, environment] = opened;
  const limit = src.slice(0, MOST_DISPLAY);
  const end = limit.search(PARAGRAPH_END);
  const body = end < 0 ? limit : limit.slice(0, end);
  const closer = environment ? `\\end{${environment}}` : CLOSERS[mark];
  const close = body.indexOf(closer, opening.length);
  if (close < 0) {
    if (limit.length < src.length && end < 0) return undefined;
    return { type: "formula_source", raw: body, text: body.trimEnd(), block: true };
  }
  const behind = close + closer.length;
  const rest = /^[ \t]*(?:\n|$)/.exec(src.slice(behind));
  const from = environment ? opening.length - mark.length : opening.length;
  const tex = body.slice(from, environment ? behind : close).trim();
  if (!rest || !tex) return undefined;
  return { type: "formula", raw: src.slice(0, behind) + rest[0], tex, display: true };
}

/** before: the text right before it in its line. */
function inlineFormula(src, before) {
  if (src.startsWith("$") && !src.startsWith("$$")) return dollarFormula(src, before);
  const mark = src.slice(0, 2);
  const closer = INLINE_CLOSERS[mark];
  if (!closer) return undefined;
  const close = src.slice(0, MOST_INLINE).indexOf(closer, 2);
  const tex = src.slice(2, Math.max(2, close)).trim();
  if (tex && !tex.includes("`")) {
    const raw = src.slice(0, close + 2);
    return { type: "formula", raw, tex, display: mark !== "\\(" };
  }
  if (close >= 0 || mark === "$$") return undefined;
  const line = /^[^\n`]*/.exec(src)[0];
  return { type: "formula_source", raw: line, text: line, block: false };
}

/** No dollar beside letters, digits or _, no space at the inner edges, no amounts of money. */
function dollarFormula(src, before) {
  if (BEFORE_DOLLAR.test(before)) return undefined;
  const found = DOLLAR.exec(src.slice(0, MOST_INLINE));
  if (!found || PRICE.test(found[1])) return undefined;
  return { type: "formula", raw: found[0], tex: found[1], display: false };
}

/** Where the first one may begin in the paragraph. */
function displayStart(src) {
  const found = DISPLAY_START.exec(src);
  return !found || /^\n[ \t]*\n/.test(found[0]) ? undefined : found.index + 1;
}

const isMark = ({ 0: mark, index }, text) =>
  mark === "$"
    ? !BEFORE_DOLLAR.test(text.slice(Math.max(0, index - 2), index))
    : mark === "\\(" || mark === "\\[";

/** Where the first one may begin before anything else does at which marked ends a piece of text. */
function inlineStart(src) {
  for (const found of src.matchAll(INLINE_START)) {
    if (isMark(found, src)) return found.index;
    if (found[0] !== "$") return undefined;
  }
  return undefined;
}

/** masked: what marked looks for emphasis in. Formulas are no place for it. */
function maskFormulas(text, masked) {
  let result = "";
  for (const found of text.matchAll(INLINE_START)) {
    const { index } = found;
    if (index < result.length || !isMark(found, text)) continue;
    const formula = inlineFormula(text.slice(index), text.slice(Math.max(0, index - 2), index));
    if (formula) result += masked.slice(result.length, index) + "a".repeat(formula.raw.length);
  }
  return result + masked.slice(result.length);
}

class FormulaLexer extends Lexer {
  /** The mask is made at the beginning of this, from what marked has masked already. */
  inlineTokens(src, tokens) {
    this.inlineText = src;
    return super.inlineTokens(src, tokens);
  }
}

const { defaults } = new Marked({ gfm: true }).use({
  extensions: [
    {
      name: "display_formula",
      level: "block",
      start: displayStart,
      tokenizer: displayFormula,
    },
    {
      name: "formula",
      level: "inline",
      start: inlineStart,
      tokenizer: (src, tokens) => inlineFormula(src, tokens.at(-1)?.raw.slice(-2) ?? ""),
    },
  ],
});

const OPTIONS = {
  ...defaults,
  hooks: {
    emStrongMask(masked) {
      return maskFormulas(this.lexer.inlineText, masked);
    },
  },
};

/** Tokens of marked and of formulas. */
export const cut = (text) => new FormulaLexer(OPTIONS).lex(text);
