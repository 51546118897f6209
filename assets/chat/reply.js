/* The body of one reply: rendered markdown or bare tokens, redrawn only where it changed. */

import { drawAll } from "./drawing.js";
import { visible } from "../shared/format.js";
import { ghostsOf, Painter, tokenSpan } from "./painter.js";
import { colourLater, isClosed } from "./rendering/colouring.js";
import { copyFormulas } from "./rendering/copying.js";
import { markLanguage } from "./rendering/language.js";
import { cut } from "./rendering/syntax.js";
import { Source } from "./source.js";
import { TEXT } from "../shared/wire.js";

const EMPTY_LINES = "space";

export class Reply {
  constructor(element, view) {
    this.element = element;
    element.addEventListener("copy", copyFormulas);
    this.view = view;
    this.source = new Source();
    this.blocks = [];
    this.drawnTokens = 0;
    this.scheduled = false;
    this.afterDraw = () => {};
  }

  push(tokens) {
    this.source.push(tokens);
    this.schedule();
  }

  setView(view) {
    if (view === this.view) return;
    this.view = view;
    this.redraw();
  }

  /** Draw everything anew, links defined below their use included. */
  redraw() {
    this.element.replaceChildren();
    this.blocks = [];
    this.drawnTokens = 0;
    this.draw();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const later = document.hidden ? (step) => setTimeout(step, 250) : requestAnimationFrame;
    later(() => {
      this.scheduled = false;
      this.draw();
      this.afterDraw();
    });
  }

  draw() {
    if (this.view === "tokens") this.drawTokens();
    else this.drawBlocks();
  }

  drawTokens() {
    if (!this.element.firstChild) {
      const list = document.createElement("div");
      list.className = "token-list";
      this.element.append(list);
    }
    const list = this.element.firstChild;
    const { tokens } = this.source;
    for (; this.drawnTokens < tokens.length; this.drawnTokens += 1) {
      list.append(...ghostsOf(this.source, this.drawnTokens));
      const span = tokenSpan(this.source, this.drawnTokens);
      const text = tokens[this.drawnTokens][TEXT];
      span.textContent = text;
      // Line ends and incomplete characters have no width of their own.
      if (!text || /^[\n\t]/.test(text)) span.dataset.blank = visible(text) || "∅";
      list.append(span);
    }
  }

  /**
   * Blocks before the last one with content cannot change any more, but for a list, which what
   * follows may belong to: lex from there. Blocks that begin where they did go on growing.
   */
  drawBlocks() {
    const kept = this.stableBlocks();
    const before = this.blocks.splice(kept).filter(({ node }) => node);
    let offset = kept ? this.blocks[kept - 1].end : 0;
    let contentEnd = this.contentEnd(kept);
    for (const token of cut(this.source.text.slice(offset))) {
      const end = offset + token.raw.length;
      if (token.type === EMPTY_LINES) this.blocks.push({ end, empty: true });
      else {
        if (before[0]?.from !== offset) drop(before);
        const block = before.shift() ?? this.newBlock(offset, end, contentEnd);
        this.drawBlock(block, token, end);
        this.blocks.push(block);
        contentEnd = end;
      }
      offset = end;
    }
    drop(before);
  }

  newBlock(from, end, contentEnd) {
    const node = document.createElement("div");
    node.className = "block";
    this.element.append(node);
    const painter = new Painter(this.source, from, end, this.source.firstFrom(contentEnd));
    return { from, end, node, painter, drawn: null, empty: false };
  }

  drawBlock(block, token, end) {
    const { node, painter } = block;
    painter.extend(end);
    markLanguage(node, painter.block);
    block.drawn = drawAll([token], node, painter, block.drawn);
    const code = node.querySelector("pre .lines:last-child") ?? node.querySelector("code");
    painter.finish(code ?? node.lastElementChild ?? node);
    block.end = end;
    block.type = token.type;
    colourLater(node, isClosed(token));
  }

  stableBlocks() {
    const last = this.contentBefore(this.blocks.length);
    const earlier = this.contentBefore(last);
    return Math.max(0, this.blocks[earlier]?.type === "list" ? earlier : last);
  }

  /** Where the last block with content before this one is, -1 if there is none. */
  contentBefore(index) {
    let last = index - 1;
    while (last >= 0 && this.blocks[last].empty) last -= 1;
    return last;
  }

  contentEnd(kept) {
    return this.blocks[this.contentBefore(kept)]?.end ?? 0;
  }
}

/** Blocks that the longer text has no more. */
function drop(blocks) {
  for (const { node } of blocks.splice(0)) node.remove();
}
