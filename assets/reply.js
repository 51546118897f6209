/* The body of one reply: rendered markdown or bare tokens, redrawn only where it changed. */

import { lexer } from "./vendor/marked/marked.esm.js";
import { visible } from "./format.js";
import { renderBlock } from "./markdown.js";
import { ghostsOf, Painter, tokenSpan } from "./painter.js";
import { Source, TEXT } from "./source.js";

const EMPTY_LINES = "space";

export class Reply {
  constructor(element, view) {
    this.element = element;
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

  /** Blocks before the last one with content cannot change any more: lex from there. */
  drawBlocks() {
    const kept = this.stableBlocks();
    for (const block of this.blocks.splice(kept)) block.node?.remove();
    const start = kept ? this.blocks[kept - 1].end : 0;
    let offset = start;
    let contentEnd = this.contentEnd(kept);
    for (const token of lexer(this.source.text.slice(start), { gfm: true })) {
      const end = offset + token.raw.length;
      const block = { from: offset, end, empty: token.type === EMPTY_LINES, node: null };
      if (!block.empty) {
        block.node = this.drawBlock(token, block, contentEnd);
        contentEnd = end;
      }
      this.blocks.push(block);
      offset = end;
    }
  }

  drawBlock(token, block, contentEnd) {
    const node = document.createElement("div");
    node.className = "block";
    const firstGhost = this.source.firstFrom(contentEnd);
    const painter = new Painter(this.source, block.from, block.end, firstGhost);
    renderBlock(token, node, painter);
    painter.finish(node.querySelector("code") ?? node.lastElementChild ?? node);
    this.element.append(node);
    return node;
  }

  stableBlocks() {
    let last = this.blocks.length - 1;
    while (last >= 0 && this.blocks[last].empty) last -= 1;
    return Math.max(0, last);
  }

  contentEnd(kept) {
    for (let index = kept - 1; index >= 0; index -= 1) {
      if (!this.blocks[index].empty) return this.blocks[index].end;
    }
    return 0;
  }
}
