/* How predictable each part of the chat was, as a strip beside the scroll bar.

   A row stands for a part of the scrolled height; its colour is the mean p of the tokens there, with
   tokens spread evenly over the height of their reply. What has no p is left empty. */

import { TARGET_P } from "../shared/wire.js";
import { levelOf } from "./levels.js";

/** Mean p of each of `rows` rows, null where nothing is known. replies: { top, bottom, tokens }. */
export function rowsOf(replies, height, rows) {
  const sums = Array.from({ length: rows }, () => [0, 0]);
  for (const { top, bottom, tokens } of replies) {
    tokens.forEach((token, index) => {
      const p = token[TARGET_P];
      if (!Number.isFinite(p) || height <= 0) return;
      const place = top + ((bottom - top) * (index + 0.5)) / tokens.length;
      const row = sums[Math.min(rows - 1, Math.max(0, Math.floor((place / height) * rows)))];
      row[0] += p;
      row[1] += 1;
    });
  }
  return sums.map(([sum, count]) => (count ? sum / count : null));
}

const ROW = 4; // pixels

export class Minimap {
  constructor(strip, { scroller, list, transcript }) {
    Object.assign(this, { strip, scroller, transcript });
    this.waiting = false;
    new ResizeObserver(() => this.request()).observe(list);
    new ResizeObserver(() => this.request()).observe(scroller);
    strip.addEventListener("click", (event) => this.go(event));
  }

  go(event) {
    const box = this.strip.getBoundingClientRect();
    const part = (event.clientY - box.top) / box.height;
    const { scrollHeight, clientHeight } = this.scroller;
    this.scroller.scrollTop = part * scrollHeight - clientHeight / 2;
  }

  /** At most four times a second, and only while it is seen. */
  request() {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => {
      this.waiting = false;
      if (getComputedStyle(this.strip).display !== "none") this.draw();
    }, 250);
  }

  draw() {
    this.strip.style.height = `${this.scroller.clientHeight - 40}px`;
    const rows = Math.floor(this.strip.offsetHeight / ROW);
    if (!rows) return;
    const replies = [...this.transcript.messages.values()]
      .filter(({ reply }) => reply)
      .map(({ element, reply }) => ({
        // Of the message: asking for what is inside lays out all that is out of sight.
        top: element.offsetTop,
        bottom: element.offsetTop + element.offsetHeight,
        tokens: reply.source.tokens,
      }));
    const levels = rowsOf(replies, this.scroller.scrollHeight, rows).map(levelOf);
    this.strip.replaceChildren(
      ...levels.map((level) => {
        const row = document.createElement("i");
        if (level !== "unknown") row.className = level;
        return row;
      }),
    );
  }
}
