/* The open conversation: what the server tells of it, and what is asked of the server. */

import { Composer } from "./composer.js";
import { setText } from "./dom.js";
import { count } from "./format.js";

const EVENTS = new Set([
  ...["user", "start", "queued", "prefill", "tok", "notice", "end", "cut", "saved", "changed"],
]);

export class Chat {
  /**
   * page: { root, call, attempt, transcript, figures, viewBar, changed(), begun(), opened() }.
   * changed: messages came or went. begun: the first message made a conversation of them.
   * opened: another conversation is shown.
   */
  constructor(page) {
    this.page = page;
    this.conversation = null;
    this.writing = null;
    this.from = 0;
    this.opening = null;
    this.announcer = page.root.querySelector("#announcer");
    this.composer = new Composer(page.root, {
      send: (text) => this.send(text),
      stop: () => this.stop(),
    });
  }

  // What the server tells

  takes(event) {
    return EVENTS.has(event.k);
  }

  event(event, number) {
    if (this.opening) this.opening.push([event, number]);
    else if (number >= this.from) this.show(event);
  }

  show(event) {
    const { transcript, figures, changed } = this.page;
    switch (event.k) {
      case "user":
        transcript.addUser(event.m, event.text);
        break;
      case "start":
        transcript.start(event.m, event.details);
        this.setWriting(event.m);
        figures.clear();
        break;
      case "queued":
        this.showProgress(event.m, `In the queue, place ${event.place}`, 0);
        break;
      case "prefill": {
        const { done, total, reused } = event;
        const kept = reused ? `, ${count(reused)} reused` : "";
        const text = `Reading the prompt: ${count(done)} of ${count(total)} tokens${kept}`;
        this.showProgress(event.m, text, total ? done / total : 1);
        break;
      }
      case "tok":
        this.tokens(event);
        break;
      case "notice":
        transcript.note(event.m, event.text);
        break;
      case "end":
        this.ended(event);
        break;
      case "cut":
        transcript.cut(event.m);
        break;
      case "saved":
        transcript.end(event.m, event.details);
        break;
      default: // changed in a way that is not told piece by piece
        this.open(this.conversation);
    }
    changed();
  }

  tokens({ m, at, add, drafters, stats }) {
    const { transcript, figures, viewBar } = this.page;
    if (!transcript.push(m, at, add, drafters)) {
      this.open(this.conversation);
      return;
    }
    if (drafters) viewBar.setDrafters(drafters);
    if (stats) {
      figures.setProgress(null);
      figures.show(stats, "This reply, live");
    }
  }

  ended({ m, details }) {
    const { transcript, figures } = this.page;
    transcript.end(m, details);
    this.setWriting(null);
    figures.setProgress(null);
    figures.show(details.stats, "The last reply");
    const text = transcript.messages.get(m)?.reply.source.text ?? "";
    setText(this.announcer, text ? `Reply: ${text}` : (details.error?.message ?? ""));
  }

  showProgress(message, text, fraction) {
    this.page.transcript.setProgress(message, text);
    this.page.figures.setProgress(text, fraction);
  }

  setWriting(message) {
    this.writing = message;
    this.page.root.dataset.writing = String(message !== null);
    this.composer.setWriting(message !== null);
  }

  draw({ conversation, messages, seq }) {
    const { transcript, figures, viewBar, changed } = this.page;
    this.conversation = conversation;
    this.from = seq;
    transcript.draw(messages);
    const last = messages.at(-1);
    this.setWriting(last?.streaming ? last.id : null);
    const replies = messages.filter((message) => message.role === "assistant");
    viewBar.setDrafters([...new Set(replies.flatMap((reply) => reply.details.drafters ?? []))]);
    figures.clear();
    if (replies.length) figures.show(replies.at(-1).details.stats, "The last reply");
    this.keepAddress();
    changed();
  }

  // What is asked of the server

  async open(conversation) {
    this.opening ??= [];
    await this.page.attempt(async () => {
      const chat = await this.page.call("open", { conversation });
      const waiting = this.opening;
      this.opening = null;
      this.draw(chat);
      for (const [event, number] of waiting) if (number >= chat.seq) this.show(event);
      this.page.opened();
      if (conversation === null) this.composer.focus();
    });
    this.opening = null;
  }

  /** True when the message was taken. */
  async send(text) {
    if (this.writing) return false;
    this.page.transcript.scrollToEnd();
    return this.page.attempt(async () => {
      const args = { conversation: this.conversation, text };
      const { conversation } = await this.page.call("send", args);
      if (conversation !== this.conversation) {
        this.conversation = conversation;
        this.keepAddress();
        this.page.begun();
      }
    });
  }

  stop() {
    if (this.conversation === null) return;
    this.page.attempt(() => this.page.call("stop", { conversation: this.conversation }));
  }

  keepAddress() {
    const { conversation } = this;
    history.replaceState(null, "", conversation === null ? "#" : `#chat-${conversation}`);
  }
}

/** The conversation that the page's address names. */
export function addressed() {
  const found = /^#chat-(\d+)$/.exec(location.hash);
  return found ? Number(found[1]) : null;
}
