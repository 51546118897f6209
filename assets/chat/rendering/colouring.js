/* When code is coloured: at once when its fence closes, else when nothing has come to it for a
   while, and always while the browser has nothing else to do. */

import { highlight } from "./highlight.js";

const IDLE_MS = 400;
const LONG_MS = 8;

/** Drawn blocks with code, and when each is due. */
const waiting = new Map();
let timer = null;

/** A block was drawn. closed: nothing more will come to the code in it. */
export function colourLater(block, closed) {
  if (!block.querySelector("code[data-language]")) return;
  waiting.delete(block);
  waiting.set(block, performance.now() + (closed ? 0 : IDLE_MS));
  timer ??= setTimeout(() => idle(work), closed ? 0 : IDLE_MS);
}

const idle = (task) =>
  globalThis.requestIdleCallback ? requestIdleCallback(task, { timeout: 1000 }) : setTimeout(task);

/** Some of what is due; one block at least. */
function work() {
  const begin = performance.now();
  for (const [block, due] of waiting) {
    if (due > begin) continue;
    waiting.delete(block);
    if (block.parentNode) block.querySelectorAll("code[data-language]").forEach(highlight);
    if (performance.now() - begin > LONG_MS) break;
  }
  const next = Math.min(...waiting.values());
  const wait = Math.max(0, next - performance.now());
  timer = waiting.size ? setTimeout(() => idle(work), wait) : null;
}

/** True if the last line of a block of code closes it. */
export function isClosed({ type, raw }) {
  const text = raw.trimEnd();
  const end = text.lastIndexOf("\n");
  return type === "code" && end > 0 && /^\s*(```|~~~)/.test(text.slice(end + 1));
}
