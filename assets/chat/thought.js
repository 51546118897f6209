/* What a model thought before its answer: a closed fold with its last line, its tokens inside.

   Thoughts are the wire tokens that details.reasoning names, {from, to, seconds, ended}; all others
   are the answer's. */

import { h, setText } from "../shared/dom.js";
import { count, seconds } from "../shared/format.js";
import { Reply } from "./reply.js";

const LAST = 200; // characters of the last line
const LABEL = "Thoughts. Left and right arrow keys walk through their tokens.";

const ENDINGS = new Map([
  ["budget", ", ended by the budget"],
  ["asked", ", ended by you"],
]);

/** The tokens of a reply, `at` and on, as thought and answer. */
export function parted(tokens, at, reasoning) {
  const { from, to } = reasoning ?? { from: 0, to: 0 };
  const start = Math.min(Math.max(from - at, 0), tokens.length);
  const end = Math.min(Math.max(to - at, start), tokens.length);
  return {
    thought: tokens.slice(start, end),
    answer: [...tokens.slice(0, start), ...tokens.slice(end)],
  };
}

const ANSWER_NOW = "Answer now";

export class Thought {
  /** resized: called when it was drawn. answerNow: asks for the end of the thought. */
  constructor(view, resized, answerNow = () => {}) {
    this.name = h("span", { class: "thought-name" }, "Thinking…");
    this.figures = h("span", { class: "thought-figures" });
    this.line = h("span", { class: "thought-line", "aria-hidden": "true" });
    this.summary = h("summary", {}, this.name, " ", this.figures, this.line);
    this.body = h("div", {
      class: "reply-body thought-body",
      tabindex: "0",
      role: "group",
      "aria-label": LABEL,
    });
    this.isText = false;
    this.fold = h("details", { class: "thought-fold" }, this.summary, this.body);
    this.ender = enderOf(answerNow);
    this.element = h("div", { class: "thought" }, this.fold, this.ender);
    this.reply = new Reply(this.body, view);
    this.reply.afterDraw = resized;
    this.fold.addEventListener("toggle", () => {
      if (this.fold.open) this.reply.redraw();
    });
  }

  get source() {
    return this.reply.source;
  }

  /** How many of the reply's tokens it holds: none, where another program kept it as text. */
  get count() {
    return this.isText ? 0 : this.source.tokens.length;
  }

  /** While the fold is closed nothing is drawn of its text but the last line. */
  push(tokens, reasoning) {
    if (this.fold.open) this.reply.push(tokens);
    else this.source.push(tokens);
    this.element.toggleAttribute("hidden", !this.source.text.trim());
    if (!this.line.parentNode) this.goOn();
    const time = seconds(reasoning.seconds);
    setText(this.figures, `${time} · ${count(this.source.tokens.length)} tokens`);
    setText(this.line, this.source.text.trimEnd().split("\n").at(-1).slice(-LAST));
  }

  /** The reply had ended inside it, and is written on. */
  goOn() {
    setText(this.name, "Thinking…");
    this.figures.after(this.line);
    this.ender.removeAttribute("aria-disabled");
    setText(this.ender, ANSWER_NOW);
    this.element.append(this.ender);
  }

  /** The answer has begun, or there will be none. */
  end(reasoning) {
    if (this.isText) return;
    setText(
      this.name,
      `Thought for ${seconds(reasoning.seconds)}${ENDINGS.get(reasoning.ended) ?? ""}`,
    );
    setText(this.figures, `· ${count(this.source.tokens.length)} tokens`);
    this.close();
  }

  /** Nothing comes any more: what belongs to thinking goes, and the focus stays in the fold. */
  close() {
    this.line.remove();
    const hadFocus = document.activeElement === this.ender;
    this.ender.remove();
    if (hadFocus) this.summary.focus();
  }

  /** Thoughts that another program kept as text: who wrote their tokens is not known. */
  showText(text) {
    this.isText = true;
    this.push([[text, "p", null, null, null, null]], { seconds: 0 });
    setText(this.name, "Thoughts");
    setText(this.figures, "");
    this.close();
  }

  setView(view) {
    if (this.fold.open) this.reply.setView(view);
    else this.reply.view = view;
  }
}

/** It can be pressed once; it keeps the focus, which a disabled button would lose. */
function enderOf(answerNow) {
  const button = h("button", { type: "button", class: "quiet-button answer-now" }, ANSWER_NOW);
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    setText(button, "Ending the thought…");
    answerNow();
  });
  return button;
}
