/* The conversation: messages, their buttons and figures, and the scrolling. */

import { copyText, h, iconButton, setText } from "./dom.js";
import { count, length, percent, rate, seconds, sentence } from "./format.js";
import { Reply } from "./reply.js";
import { FINISHES } from "./words.js";

const NEAR_END = 48;

export class Transcript {
  /** actions: { regenerate, edit, showFigures, newChat, openSettings, trim, canTrim } */
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
    const body = h("div", { class: "user-text" }, text);
    const buttons = h(
      "div",
      { class: "message-buttons" },
      iconButton("edit", "Edit and send again", () => this.startEdit(id)),
      iconButton("copy", "Copy", (event) => copyText(text, event.currentTarget)),
    );
    const element = h("article", { class: "message user", "aria-label": "You" }, body, buttons);
    this.list.append(element);
    this.messages.set(id, { id, role: "user", element, body, buttons, text });
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
    entry.notes.replaceChildren(...this.notesOf(entry));
    entry.footer.replaceChildren(...this.footerOf(entry));
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

  footerOf(entry) {
    const { details } = entry;
    const text = entry.reply.source.text;
    const figures = h("div", { class: "reply-figures" });
    for (const [value, title] of figuresOf(details)) {
      figures.append(h("span", { title }, value));
    }
    const buttons = h(
      "div",
      { class: "message-buttons" },
      iconButton("chart", "Show the figures of this reply", () => this.actions.showFigures(entry)),
      iconButton("redo", "Write this reply again", () => this.actions.regenerate(entry.id)),
      iconButton("copy", "Copy", (event) => copyText(text, event.currentTarget)),
    );
    return [figures, buttons];
  }

  notesOf(entry) {
    const { details } = entry;
    const notes = (details.notices ?? []).map((text) => h("p", { class: "note" }, text));
    const button = (label, onclick) =>
      h("button", { type: "button", class: "button", onclick }, label);
    const { newChat, openSettings, regenerate, trim } = this.actions;
    if (details.finish === "context") {
      const text =
        "The context is full, so the reply ends here. Start a new chat, or load the model with a larger context.";
      const larger = button("Larger context", () => openSettings("context_length"));
      notes.push(
        h("div", { class: "note warn" }, h("p", {}, text), button("New chat", newChat), larger),
      );
    }
    if (details.finish === "interrupted") {
      notes.push(
        h("p", { class: "note" }, "This reply was interrupted; what had arrived was kept."),
      );
    }
    if (details.error) {
      const again = button("Try again", () => regenerate(entry.id));
      const box = h(
        "div",
        { class: "note error", role: "alert" },
        h("p", {}, sentence(details.error.message)),
      );
      if (details.error.kind === "ContextLengthError") {
        if (this.actions.canTrim()) {
          box.append(button("Leave out the oldest messages", () => trim(entry.id)));
        }
        box.append(button("New chat", newChat));
      } else {
        box.append(again);
      }
      notes.push(box);
    }
    return notes;
  }

  startEdit(id) {
    const entry = this.messages.get(id);
    const box = h("textarea", { class: "edit-box", "aria-label": "Edit your message" });
    box.value = entry.text;
    box.rows = Math.min(12, entry.text.split("\n").length + 1);
    const close = () => {
      form.remove();
      entry.body.hidden = entry.buttons.hidden = false;
    };
    const send = () => this.actions.edit(id, box.value).then((sent) => sent && close());
    const hint = h("p", { class: "edit-hint" }, "The messages below will be replaced.");
    const cancel = h("button", { type: "button", class: "button", onclick: close }, "Cancel");
    const submit = h("button", { type: "submit", class: "button primary" }, "Send");
    const form = h("form", { class: "edit-form" }, box, hint, h("div", {}, cancel, submit));
    form.addEventListener("submit", (event) => (event.preventDefault(), send()));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    entry.body.hidden = entry.buttons.hidden = true;
    entry.element.prepend(form);
    box.focus();
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

/** [shown, explained] pairs of a reply's footer. */
const NOT_EXACT =
  "Typical acceptance kept tokens that the target alone would have drawn more rarely; " +
  "choose the acceptance Exact in the settings for the target's own distribution";

/** Of how many tokens there are, how fast they came and how many drafts were kept. */
function speedOf(stats) {
  const figures = [[`${count(stats.emitted)} tokens`, `in ${count(stats.rounds)} rounds`]];
  if (stats.tokens_per_second !== null) {
    const time = `${seconds(stats.decode_seconds)} of decoding`;
    figures.push([`${rate(stats.tokens_per_second)} tokens/s`, time]);
  }
  if (stats.proposed) {
    const drafts = `${count(stats.accepted)} of ${count(stats.proposed)} drafts accepted`;
    figures.push([`${percent(stats.acceptance_rate)} accepted`, drafts]);
    const mean = "mean accepted length: tokens per pass of the target";
    figures.push([`${length(stats.mean_accepted_length)} per round`, mean]);
  }
  return figures;
}

function figuresOf(details) {
  const { stats, finish, seed, prompt_tokens: prompt, reused_prompt_tokens: reused } = details;
  const began = Boolean(stats?.rounds);
  const figures = began ? speedOf(stats) : [];
  if (began && prompt !== undefined) {
    const kept = reused ? `, ${count(reused)} reused` : "";
    const title = `Prompt of ${count(prompt)} tokens; ${count(reused)} were in memory already`;
    figures.push([`prompt ${count(prompt)}${kept}`, title]);
  }
  if (began && seed !== undefined) {
    const title =
      "Set this seed to get the reply again; with speculation on auto, set the coupling to " +
      "Same text per seed as well";
    figures.push([`seed ${seed}`, title]);
  }
  if (details.exact === false) figures.push(["text changed by typical acceptance", NOT_EXACT]);
  if (finish) figures.push([FINISHES[finish] ?? finish, `model ${details.model}`]);
  return figures;
}
