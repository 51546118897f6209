/* Where a token of the lookup was copied from, shown in the chat while it is looked at.

   details.copied is a list of runs [first, count, text, place] (app/copied.py). A place in the reply
   itself is known exactly; one in the prompt is found by the text that was copied, together with
   what stands before it, and where that stands several times all are shown and it is said. */

import { TEXT, wireNumber } from "../shared/wire.js";

const BEFORE = 3; // tokens that a lookup compares at least
const NAME = "forerun-copied";

/** The run that covers token number `wire`, null if it was not copied or that is not known. */
export function runAt(copied, wire) {
  if (!Array.isArray(copied)) return null;
  const found = copied.find(
    (run) => Array.isArray(run) && run[0] <= wire && wire < run[0] + run[1],
  );
  if (!found) return null;
  const [first, count, text, place] = found;
  return { first, count, text, place };
}

/** All tokens of a reply in the order they were written. */
export function wireTokens(entry) {
  const answer = entry.reply.source.tokens;
  const thought = entry.thought?.source.tokens ?? [];
  const from = entry.details.reasoning?.from ?? 0;
  return thought.length ? [...answer.slice(0, from), ...thought, ...answer.slice(from)] : answer;
}

/** Where `wanted` stands in `text`: every place. */
function placesOf(text, wanted) {
  const places = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) places.push(at);
  return places;
}

const textOf = (tokens) => tokens.map((token) => token[TEXT]).join("");

/** Ranges { entry, from, to } in the messages before, in characters. */
export function rangesBefore(messages, run, tokens) {
  const copied = textOf(tokens.slice(run.first, run.first + run.count));
  const before = textOf(tokens.slice(Math.max(0, run.first - BEFORE), run.first));
  if (!copied.trim()) return [];
  const found = messages.flatMap((entry) => {
    const text = entry.role === "user" ? entry.text : entry.reply.source.text;
    return placesOf(text, before + copied).map((at) => {
      const from = at + before.length;
      return { entry, from, to: from + copied.length };
    });
  });
  return found;
}

export class CopyThread {
  /** transcript: whose messages are searched. */
  constructor(transcript) {
    this.transcript = transcript;
    this.marked = [];
  }

  /** What is said of the source of a token; null if it was not copied. Shows it in the chat. */
  show({ entry, wire }) {
    this.clear();
    const run = runAt(entry.details.copied, wire);
    if (!run) return null;
    if (run.text !== null) return "one of your earlier chats";
    const start = entry.details.prompt_tokens;
    if (start !== undefined && run.place >= start) {
      return this.showOwn(entry, run.place - start, run.count);
    }
    return this.showBefore(entry, run);
  }

  showOwn(entry, from, count) {
    const { reasoning } = entry.details;
    for (const part of [entry.reply, entry.thought?.reply]) {
      for (const span of part?.element.querySelectorAll(".token") ?? []) {
        const at = wireNumber(Number(span.dataset.index), part !== entry.reply, reasoning);
        if (at >= from && at < from + count) this.mark(span);
      }
    }
    return `earlier in this reply, from token ${from + 1} on${this.hint()}`;
  }

  showBefore(entry, run) {
    const all = [...this.transcript.messages.values()];
    const earlier = all.slice(0, all.indexOf(entry));
    const ranges = rangesBefore(earlier, run, wireTokens(entry));
    if (!ranges.length)
      return "the text before this reply (a message, the system prompt, the template or a file)";
    for (const range of ranges) this.markRange(range);
    const whose = ranges.at(-1).entry.role === "user" ? "your message" : "an earlier reply";
    if (ranges.length > 1)
      return `one of ${ranges.length} places above that read the same${this.hint()}`;
    return `${whose}${this.hint()}`;
  }

  markRange({ entry, from, to }) {
    if (entry.role === "user") this.highlight(entry.body, from, to);
    else {
      const first = entry.reply.source.tokenAt(from);
      const last = entry.reply.source.tokenAt(to - 1);
      for (const span of entry.body.querySelectorAll(".token")) {
        const at = Number(span.dataset.index);
        if (at >= first && at <= last) this.mark(span);
      }
    }
  }

  mark(span) {
    span.classList.add("copied-from");
    this.marked.push(span);
  }

  highlight(body, from, to) {
    const text = body.firstChild;
    if (!text || to > (text.length ?? 0) || typeof Highlight === "undefined") return;
    const range = document.createRange();
    range.setStart(text, from);
    range.setEnd(text, to);
    const shown = CSS.highlights.get(NAME) ?? new Highlight();
    shown.add(range);
    CSS.highlights.set(NAME, shown);
    this.marked.push(range);
  }

  /** Which way to scroll where none of the source is in view. */
  hint() {
    const view = this.transcript.scroller.getBoundingClientRect();
    const boxes = this.marked.map((one) => one.getBoundingClientRect());
    if (!boxes.length || boxes.some((box) => box.bottom > view.top && box.top < view.bottom))
      return "";
    return boxes[0].bottom <= view.top ? ", further up ↑" : ", further down ↓";
  }

  clear() {
    for (const one of this.marked) one.classList?.remove("copied-from");
    this.marked = [];
    if (typeof CSS !== "undefined") CSS.highlights?.delete(NAME);
  }
}
