/* The messages of the conversation, in their order, and the scrolling. */

import { h, setText } from "../shared/dom.js";
import { UserMessage } from "./usermessage.js";
import { Reply } from "./reply.js";
import { footerOf } from "./replyfooter.js";
import { notesOf } from "./replynotes.js";
import { arrange, focusIn, placeIn } from "./place.js";
import { Runway } from "./runway.js";
import { wireNumber } from "../shared/wire.js";
import { parted, Thought } from "./thought.js";
import { VersionSwitcher } from "./versions.js";

const NEAR_END = 48;
const AT_END = 1;

export class Transcript {
  /** actions: { regenerate, goOn, edit, editReply, select(id), which resolves to true when it was done, fork,
      compare, remove, showFigures, replay, newChat, openSettings, trim, canTrim, saveAgain, answerNow } */
  constructor({ scroller, list, toEnd }, actions) {
    this.scroller = scroller;
    this.list = list;
    this.toEnd = toEnd;
    this.actions = actions;
    this.messages = new Map();
    this.setAside = new Map();
    this.wanted = null;
    this.view = "rendered";
    this.atEnd = true;
    this.top = 0;
    scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    toEnd.addEventListener("click", () => this.scrollToEnd());
    list.addEventListener("keydown", (event) => this.walkVersions(event));
    const resizes = new ResizeObserver(() => this.keepEnd());
    for (const part of [list, scroller]) resizes.observe(part);
  }

  /** Alt with left and right walks through the versions of the message that has the focus. */
  walkVersions(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !event.altKey || event.target.matches("textarea")) return;
    const element = event.target.closest(".message");
    const entry = [...this.messages.values()].find((one) => one.element === element);
    if (!entry || entry.switcher.versions.length < 2) return;
    event.preventDefault();
    entry.switcher.go(by);
  }

  /** Another version; the next step goes on from it, though it is not drawn yet. */
  async select(id) {
    this.wanted = id;
    const went = await this.actions.select(id);
    if (!went && this.wanted === id) this.wanted = null;
  }

  newSwitcher(id) {
    return new VersionSwitcher(id, {
      choose: (other) => this.select(other),
      wanted: () => this.wanted,
    });
  }

  /** What was drawn of them stays, with where the user is in it. stays: of the same conversation. */
  draw(messages, stays = false) {
    const goBack = stays ? this.placeInView() : null;
    const refocus = focusIn(this.list);
    const before = new Map(this.messages);
    this.messages.clear();
    if (messages.some(({ id }) => id === this.wanted) || !stays) this.wanted = null;
    for (const message of messages) {
      const known = before.get(message.id) ?? this.setAside.get(message.id);
      const isSame = known?.isEditing || known?.isSame(message);
      const entry = isSame ? known : this.made(message);
      this.messages.set(message.id, entry);
      entry.switcher.show(message.versions);
    }
    this.keepForms(before.values());
    arrange(this.list, this.elements);
    refocus();
    if (goBack) goBack();
    else this.scrollToEnd();
  }

  /** A message that is being edited keeps its form for when its path is shown again. */
  keepForms(entries) {
    for (const entry of entries) {
      if (entry.isEditing) this.setAside.set(entry.id, entry);
    }
    for (const [id, entry] of this.setAside) {
      if (!entry.isEditing || this.messages.has(id)) this.setAside.delete(id);
    }
  }

  get elements() {
    return [...this.messages.values()].map(({ element }) => element);
  }

  /** The way back to what can be seen now; null at the end of the chat. */
  placeInView() {
    this.onScroll();
    if (this.atEnd) return null;
    const goBack = placeIn(this.scroller, this.messages);
    return () => {
      goBack(this.messages);
      this.top = this.scroller.scrollTop;
      this.onScroll();
    };
  }

  /** What is drawn is not the chosen conversation (any more): nothing in it can be pressed. */
  setStale(stale) {
    this.list.inert = stale;
    this.list.classList.toggle("stale", stale);
    this.list.setAttribute("aria-busy", String(stale));
  }

  /** Drawn complete, for a place that it does not have yet: no layout is asked for until all are. */
  made({ id, role, content, files, ...message }) {
    if (role === "user") return this.newUser(id, content, files);
    const entry = this.makeReply(id, message.details);
    entry.hasIds = message.has_ids;
    if (message.reasoning) this.fold(entry).showText(message.reasoning);
    const answer = this.pushThought(entry, message.tokens, 0, message.details.reasoning);
    entry.reply.source.push(answer);
    entry.reply.redraw();
    if (message.streaming) this.setStreaming(entry, true);
    else this.complete(entry, message.details);
    return entry;
  }

  get last() {
    return [...this.messages.values()].at(-1) ?? null;
  }

  addUser(id, text, versions, files) {
    if (this.messages.has(id)) return;
    this.add(this.newUser(id, text, files));
    this.messages.get(id).switcher.show(versions);
    this.scrollToEnd();
  }

  newUser(id, text, files) {
    return new UserMessage(id, text, { ...this.actions, switcher: this.newSwitcher(id) }, files);
  }

  add(message) {
    this.list.append(message.element);
    this.messages.set(message.id, message);
  }

  addReply(id, details, versions) {
    const known = this.messages.get(id);
    if (known) return known;
    const entry = this.makeReply(id, details);
    this.add(entry);
    entry.switcher.show(versions);
    return entry;
  }

  makeReply(id, details) {
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
    const entry = { id, role: "assistant", element, body, progress, notes, footer, details };
    entry.isSame = (message) => isSameReply(entry, message);
    entry.switcher = this.newSwitcher(id);
    entry.reply = new Reply(body, this.view);
    entry.reply.afterDraw = () => this.keepEnd();
    return entry;
  }

  start(id, details, versions) {
    this.setStreaming(this.addReply(id, details, versions), true);
    this.keepEnd();
  }

  /** A reply that had ended is written on, behind what it has. */
  resume(id, details) {
    const entry = this.messages.get(id);
    if (!entry) return;
    entry.details = details;
    if (entry.footer.contains(document.activeElement)) entry.body.focus({ preventScroll: true });
    entry.notes.replaceChildren();
    entry.footer.replaceChildren();
    this.setStreaming(entry, true);
    this.keepEnd();
  }

  setStreaming(entry, streaming) {
    entry.streaming = streaming;
    entry.hasIds ||= streaming;
    entry.element.classList.toggle("streaming", streaming);
    entry.element.setAttribute("aria-busy", String(streaming));
    entry.progress.hidden = !streaming || known(entry) > 0;
    if (streaming && !entry.runway) {
      entry.runway = new Runway();
      entry.body.after(entry.runway.element);
    } else if (!streaming) {
      entry.runway?.end();
      entry.runway = null;
    }
  }

  /** What is thought of some tokens goes into the fold; gives the rest, which is the answer. */
  pushThought(entry, tokens, at, reasoning) {
    const { thought, answer } = parted(tokens, at, reasoning);
    if (thought.length) {
      this.fold(entry).push(thought, reasoning);
    }
    const told = reasoning ?? entry.details.reasoning;
    if (answer.length && told) entry.thought?.end(told);
    return answer;
  }

  fold(entry) {
    if (!entry.thought) {
      entry.thought = new Thought(this.view, () => this.keepEnd(), this.actions.answerNow);
      entry.body.before(entry.thought.element);
    }
    return entry.thought;
  }

  setProgress(id, text) {
    const entry = this.messages.get(id);
    if (entry) setText(entry.progress, text);
  }

  /** Tokens from number `at` on; false if some before them are missing. */
  push(id, at, tokens, { drafters, reasoning, copied }) {
    const entry = this.messages.get(id);
    if (!entry) return false;
    const there = known(entry);
    if (at > there) return false;
    if (drafters) entry.details.drafters = drafters;
    if (reasoning) entry.details.reasoning = reasoning;
    if (copied && at === there) (entry.details.copied ??= []).push(...copied);
    entry.progress.hidden = true;
    const added = tokens.slice(there - at);
    if (at === there) entry.runway?.show(added);
    entry.reply.push(this.pushThought(entry, added, there, entry.details.reasoning));
    return true;
  }

  note(id, text) {
    const entry = this.messages.get(id);
    entry?.notes.append(h("p", { class: "note" }, text));
  }

  end(id, details) {
    const entry = this.messages.get(id);
    if (!entry) return;
    this.complete(entry, details);
    this.keepEnd();
  }

  complete(entry, details) {
    entry.details = details;
    this.setStreaming(entry, false);
    if (details.reasoning) entry.thought?.end(details.reasoning);
    if (/^ {0,3}\[[^\]]+\]:/m.test(entry.reply.source.text)) entry.reply.redraw();
    entry.notes.replaceChildren(...notesOf(entry, this.actions));
    entry.footer.replaceChildren(...footerOf(entry, this.actions));
  }

  /** Another path begins below this message, null for the first one. */
  cutAfter(id) {
    let below = id === null;
    for (const entry of [...this.messages.values()]) {
      if (below) {
        entry.element.remove();
        this.messages.delete(entry.id);
        this.keepForms([entry]);
      }
      below ||= entry.id === id;
    }
  }

  has(id) {
    return this.messages.has(id);
  }

  setView(view) {
    this.view = view;
    for (const entry of this.messages.values()) {
      entry.reply?.setView(view);
      entry.thought?.setView(view);
    }
    this.keepEnd();
  }

  /** The token behind a token or ghost element, for the tooltip. */
  tokenOf(element) {
    const body = element.closest(".reply-body");
    const entries = [...this.messages.values()];
    const entry = entries.find((one) => one.body === body || one.thought?.body === body);
    const part = entry?.thought?.body === body ? entry.thought : entry?.reply;
    const token = part?.source.tokens[element.dataset.index];
    if (!token) return null;
    const number = element.dataset.number;
    const rejected = number === undefined ? null : token[6][number];
    return {
      token,
      rejected,
      number: Number(number),
      drafters: entry.details.drafters ?? [],
      ...this.placeOf(element, entry, part),
    };
  }

  /** Which token of which reply it is. */
  placeOf(element, entry, part) {
    const { id: message, details, streaming } = entry;
    const isThought = part === entry.thought;
    const wire = wireNumber(Number(element.dataset.index), isThought, details.reasoning);
    return { entry, message, wire, details, streaming };
  }

  /**
   * Any step upwards, however small, lets go of the end; coming near it again takes hold. Text that
   * gets shorter moves the view up too, but leaves it at the end.
   */
  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const left = scrollHeight - scrollTop - clientHeight;
    if (scrollTop < this.top && left > AT_END) this.atEnd = false;
    else if (scrollTop > this.top && left < NEAR_END) this.atEnd = true;
    else if (left <= AT_END) this.atEnd = true;
    this.top = scrollTop;
    this.toEnd.hidden = this.atEnd;
  }

  /** The user may have moved since the last event told of it. */
  keepEnd() {
    this.onScroll();
    if (this.atEnd) this.toTheEnd();
  }

  scrollToEnd() {
    this.atEnd = true;
    this.toEnd.hidden = true;
    this.toTheEnd();
  }

  toTheEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.top = this.scroller.scrollTop;
  }
}

/** Nothing has been written of it since it was drawn, and it has ended. */
function isSameReply(entry, { tokens, streaming, details }) {
  if (entry.streaming || streaming || entry.isEditing) return false;
  return tokens.length === known(entry) && inOrder(details) === inOrder(entry.details);
}

/** As text that does not depend on the order of the names. */
function inOrder(details) {
  const isTable = (value) => value && typeof value === "object" && !Array.isArray(value);
  return JSON.stringify(details, (_, value) =>
    isTable(value) ? Object.fromEntries(Object.entries(value).sort()) : value,
  );
}

/** How many tokens of a reply have arrived. */
function known({ reply, thought }) {
  return reply.source.tokens.length + (thought?.count ?? 0);
}
