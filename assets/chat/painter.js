/* Lays the tokens of a reply over rendered text: one span for each token, ghosts in their place.

   A painter works on one block of markdown. Rendered text is found again in the block's source,
   always moving forward, so every character knows its token. */

import { visibleInText } from "../shared/format.js";
import { DRAFTER, isGiven, joint, KIND, REJECTED, TARGET_P } from "../shared/wire.js";
import { levelOf } from "./levels.js";

const ENTITY = /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,8}));/gi;
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
const KIND_CLASS = { a: "accepted", c: "correction", b: "bonus", p: "plain" };
export const DRAFTER_SLOTS = 6;

export class Painter {
  /** from, to: the block in the source. firstGhost: first token whose ghosts belong here. */
  constructor(source, from, to, firstGhost) {
    this.source = source;
    this.block = source.text.slice(from, to);
    this.from = from;
    this.to = to;
    this.at = 0;
    this.nextGhost = firstGhost;
    this.painted = -1;
    this.span = null;
    this.parent = null;
    this.ending = [];
    this.beforeEnding = firstGhost;
  }

  /** The block has become longer. */
  extend(to) {
    this.block = this.source.text.slice(this.from, to);
    this.to = to;
    for (const ghost of this.ending) ghost.remove();
    this.ending = [];
    this.nextGhost = this.beforeEnding;
  }

  /** Where it stands, to go on from there once more. */
  state() {
    const { at, nextGhost, painted, span, parent } = this;
    return { at, nextGhost, painted, span, parent, length: span?.textContent.length };
  }

  /** Text that went into the same span since then is taken out of it. */
  restore(state) {
    const { length, ...place } = state;
    Object.assign(this, place);
    const text = this.span?.textContent;
    if (text?.length > length) this.span.textContent = text.slice(0, length);
  }

  /** Go to where a piece of markdown stands; -1 if its text is not found in one piece. */
  enter(raw) {
    const start = this.block.indexOf(raw, this.at);
    if (start >= 0) this.at = start;
    return start;
  }

  /** The piece is painted: go on behind it, syntax included. */
  leave(start, raw) {
    if (start >= 0) this.at = Math.max(this.at, start + raw.length);
  }

  /** Go on behind the next line end (the opening line of a fence, the rule of a table). */
  skipLine() {
    const end = this.block.indexOf("\n", this.at);
    if (end >= 0) this.at = end + 1;
  }

  /** Append text with entities such as &lt; shown as what they mean. */
  textWithEntities(parent, text) {
    let done = 0;
    for (const match of text.matchAll(ENTITY)) {
      const decoded = decode(match);
      if (decoded === null) continue;
      this.text(parent, text.slice(done, match.index));
      const place = this.block.indexOf(match[0], this.at);
      const offset = place >= 0 ? place : this.at;
      this.append(parent, decoded, offset);
      if (place >= 0) this.at = place + match[0].length;
      done = match.index + match[0].length;
    }
    this.text(parent, text.slice(done));
  }

  /** Append text that stands in the source, perhaps with syntax or indentation between. */
  text(parent, text) {
    if (!text) return;
    const start = this.block.indexOf(text, this.at);
    if (start >= 0) {
      this.run(parent, text, start);
      this.at = start + text.length;
      return;
    }
    for (const character of text) {
      const place = this.block.indexOf(character, this.at);
      this.append(parent, character, place >= 0 ? place : Math.max(0, this.at - 1));
      if (place >= 0) this.at = place + character.length;
    }
  }

  /** Text that stands in one piece: cut at token borders. */
  run(parent, text, start) {
    const { starts } = this.source;
    let done = 0;
    while (done < text.length) {
      const index = this.source.tokenAt(this.from + start + done);
      const next = index + 1 < starts.length ? starts[index + 1] - this.from - start : text.length;
      const end = Math.min(text.length, Math.max(next, done + 1));
      this.append(parent, text.slice(done, end), start + done);
      done = end;
    }
  }

  append(parent, text, offset) {
    const index = this.source.tokenAt(this.from + offset);
    if (index !== this.painted || parent !== this.parent) {
      this.ghosts(parent, index);
      this.span = tokenSpan(this.source, index);
      parent.append(this.span);
      this.painted = index;
      this.parent = parent;
    }
    this.span.append(text);
  }

  /** Ghosts of all tokens up to `index`, those that only wrote syntax included. */
  ghosts(parent, index) {
    for (; this.nextGhost <= index; this.nextGhost += 1) {
      parent.append(...ghostsOf(this.source, this.nextGhost));
    }
  }

  /** As far as it goes the block is complete: ghosts of tokens that wrote its closing syntax. */
  finish(parent) {
    const before = parent.lastChild;
    this.beforeEnding = this.nextGhost;
    this.ghosts(parent, this.source.firstFrom(this.to) - 1);
    for (let ghost = parent.lastChild; ghost !== before; ghost = ghost.previousSibling) {
      this.ending.push(ghost);
    }
  }
}

export function tokenSpan(source, index) {
  const token = source.tokens[index];
  const span = document.createElement("span");
  const slot = token[DRAFTER] === null ? "none" : token[DRAFTER] % DRAFTER_SLOTS;
  const kind = isGiven(token) ? "plain given" : KIND_CLASS[token[KIND]];
  span.className = `token ${kind} drafter-${slot} ${levelOf(token[TARGET_P])}`;
  span.dataset.index = index;
  return span;
}

/** Rejected drafts stand in attributes: not in the text, not selected, not read aloud. */
export function ghostsOf(source, index) {
  return (source.tokens[index]?.[REJECTED] ?? []).map((rejected, number, all) => {
    const ghost = document.createElement("s");
    ghost.className = `ghost ${joint(all, number)}`;
    ghost.setAttribute("aria-hidden", "true");
    ghost.dataset.text = visibleInText(rejected[0]) || "∅";
    ghost.dataset.index = index;
    ghost.dataset.number = number;
    return ghost;
  });
}

function decode([, decimal, hexadecimal, name]) {
  if (name) return NAMED[name.toLowerCase()] ?? null;
  const code = decimal ? Number(decimal) : parseInt(hexadecimal, 16);
  return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff)
    ? String.fromCodePoint(code)
    : null;
}
