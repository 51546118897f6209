/* The messages of the conversation, in their order, and the scrolling. */

import { h, setText } from "./dom.js";
import { UserMessage } from "./usermessage.js";
import { Reply } from "./reply.js";
import { footerOf } from "./replyfooter.js";
import { notesOf } from "./replynotes.js";

const NEAR_END = 48;

export class Transcript {
  /** actions: { regenerate, edit, showFigures, newChat, openSettings, trim, canTrim, saveAgain,
      bringBack } */
  constructor({ scroller, list, toEnd }, actions) {
    this.scroller = scroller;
    this.list = list;
    this.toEnd = toEnd;
    this.actions = actions;
    this.messages = new Map();
    this.view = "rendered";
    this.atEnd = true;
    scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    toEnd.addEventListener("click", () => this.scrollToEnd());
    new ResizeObserver(() => this.keepEnd()).observe(list);
  }

  draw(messages) {
    this.list.replaceChildren();
    this.messages.clear();
    for (const message of messages) {
      if (message.role === "user") this.addUser(message.id, message.content);
      else this.drawReply(message);
    }
    this.scrollToEnd();
  }

  drawReply(message) {
    const entry = this.addReply(message.id, message.details);
    entry.reply.source.push(message.tokens);
    entry.reply.redraw();
    if (message.streaming) this.setStreaming(entry, true);
    else this.end(message.id, message.details);
  }

  get last() {
    return [...this.messages.values()].at(-1) ?? null;
  }

  addUser(id, text) {
    if (this.messages.has(id)) return;
    const message = new UserMessage(id, text, this.actions);
    this.list.append(message.element);
    this.messages.set(id, message);
    this.scrollToEnd();
  }

  /** The user's last message, null in an empty chat. */
  lastPrompt() {
    const asked = [...this.messages.values()].filter((message) => message.role === "user");
    return asked.at(-1)?.text ?? null;
  }

  addReply(id, details) {
    const known = this.messages.get(id);
    if (known) return known;
    const body = h("div", {
      class: "reply-body",
      tabindex: "0",
      role: "group",
      "aria-label": "Reply. Left and right arrow keys walk through its tokens.",
    });
    const progress = h("p", { class: "reply-progress" }, "Waiting for the engine");
    const notes = h("div", { class: "reply-notes" });
    const footer = h("footer", { class: "reply-footer" });
    const element = h("article", { class: "message reply", "aria-label": "Reply" });
    element.append(body, progress, notes, footer);
    this.list.append(element);
    const entry = { id, role: "assistant", element, body, progress, notes, footer, details };
    entry.reply = new Reply(body, this.view);
    entry.reply.afterDraw = () => this.keepEnd();
    this.messages.set(id, entry);
    return entry;
  }

  start(id, details) {
    this.setStreaming(this.addReply(id, details), true);
    this.keepEnd();
  }

  setStreaming(entry, streaming) {
    entry.streaming = streaming;
    entry.element.classList.toggle("streaming", streaming);
    entry.element.setAttribute("aria-busy", String(streaming));
    entry.progress.hidden = !streaming || entry.reply.source.tokens.length > 0;
  }

  setProgress(id, text) {
    const entry = this.messages.get(id);
    if (entry) setText(entry.progress, text);
  }

  /** Tokens from number `at` on; false if some before them are missing. */
  push(id, at, tokens, drafters) {
    const entry = this.messages.get(id);
    if (!entry) return false;
    const known = entry.reply.source.tokens.length;
    if (at > known) return false;
    if (drafters) entry.details.drafters = drafters;
    entry.progress.hidden = true;
    entry.reply.push(tokens.slice(known - at));
    return true;
  }

  note(id, text) {
    const entry = this.messages.get(id);
    entry?.notes.append(h("p", { class: "note" }, text));
  }

  end(id, details) {
    const entry = this.messages.get(id);
    if (!entry) return;
    entry.details = details;
    this.setStreaming(entry, false);
    if (/^ {0,3}\[[^\]]+\]:/m.test(entry.reply.source.text)) entry.reply.redraw();
    entry.notes.replaceChildren(...notesOf(entry, this.actions));
    entry.footer.replaceChildren(...footerOf(entry, this.actions));
    this.keepEnd();
  }

  /** Remove a message and all after it. */
  cut(id) {
    for (const entry of [...this.messages.values()]) {
      if (entry.id < id) continue;
      entry.element.remove();
      this.messages.delete(entry.id);
    }
  }

  setView(view) {
    this.view = view;
    for (const entry of this.messages.values()) entry.reply?.setView(view);
    this.keepEnd();
  }

  /** The token behind a token or ghost element, for the tooltip. */
  tokenOf(element) {
    const body = element.closest(".reply-body");
    const entry = [...this.messages.values()].find((message) => message.body === body);
    const token = entry?.reply?.source.tokens[element.dataset.index];
    if (!token) return null;
    const number = element.dataset.number;
    const rejected = number === undefined ? null : token[6][number];
    return { token, rejected, number: Number(number), drafters: entry.details.drafters ?? [] };
  }

  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    this.toEnd.hidden = this.atEnd;
  }

  keepEnd() {
    if (this.atEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  scrollToEnd() {
    this.atEnd = true;
    this.toEnd.hidden = true;
    this.keepEnd();
  }
}
