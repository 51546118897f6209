/* How full the context is: beside the message box, with what is being typed.

   One question is under way at a time, and after its answer the next one if anything changed
   meanwhile: a long text does not pile up questions, and what is drawn is the latest. */

import { setText } from "../shared/dom.js";
import { count } from "../shared/format.js";

const PAUSE = 250; // milliseconds without a key
const NEARLY_FULL = 0.8;

export class ContextMeter {
  /** page: { call, text(), conversation() }. */
  constructor(root, page) {
    this.page = page;
    this.element = root.querySelector("#context-meter");
    this.figure = this.element.querySelector(".meter-figure");
    this.bar = this.element.querySelector(".meter-bar > span");
    this.note = this.element.querySelector(".meter-note");
    this.timer = null;
    this.asking = false;
    this.stale = false;
  }

  /** What it shows may have changed. */
  refresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), PAUSE);
  }

  async ask() {
    if (this.asking) {
      this.stale = true;
      return;
    }
    this.asking = true;
    this.stale = false;
    const [conversation, text] = [this.page.conversation(), this.page.text()];
    try {
      const size = await this.page.call("count", { conversation, text });
      if (conversation === this.page.conversation()) this.show(size, text);
    } catch {
      this.show(null); // whoever sends the message is told what is wrong
    } finally {
      this.asking = false;
    }
    if (this.stale) this.refresh();
  }

  show(size, text = "") {
    this.element.hidden = !size;
    if (!size) return;
    const { tokens, limit, dropped, refused, typed } = size;
    const part = Math.min(1, tokens / limit);
    setText(this.figure, `${count(tokens)} of ${count(limit)}`);
    this.bar.style.width = `${100 * part}%`;
    this.element.dataset.state = refused ? "refused" : part > NEARLY_FULL ? "nearly-full" : "";
    setText(this.note, consequence(dropped, refused));
    const first = text ? `Your message: ${tokensWord(typed)}. ` : "";
    this.element.title = `${first}With it the chat takes ${tokensWord(tokens)} of the model's ${count(limit)}.`;
  }
}

const tokensWord = (number) => (number === 1 ? "1 token" : `${count(number)} tokens`);

function consequence(dropped, refused) {
  if (refused) return `Cannot be sent: ${refused}`;
  if (!dropped) return "";
  const what = dropped === 1 ? "oldest message" : `${count(dropped)} oldest messages`;
  return `The ${what} will be left out`;
}
