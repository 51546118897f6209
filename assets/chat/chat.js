/* The open conversation: what the server tells of it, and what is asked of the server.

   The conversation is the one that the user chose last, from the click on; what is drawn may be the
   one before until the answer comes. Events name their conversation, and those that come before it
   is drawn are held back. Requests that choose one are numbered, so that the server goes by the last.

   chat/ is the conversation: its messages, their tokens and figures, and how they are shown. It
   knows nothing of how models are chosen and loaded. */

import { Attachments } from "./attachments.js";
import { Composer } from "./composer.js";
import { ContextMeter } from "./contextmeter.js";
import { setText } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { learnNames } from "../shared/names.js";
import { Latest, single } from "../shared/requests.js";

const EVENTS = new Set([
  ...["user", "start", "queued", "prefill", "tok", "notice", "end", "after", "saved", "changed"],
  "resume",
]);

export class Chat {
  /**
   * page: { root, call, attempt, transcript, figures, viewBar, drafts, changed(), chosen(),
   * advise(conversation, entry) }.
   * changed: messages came or went. chosen: another conversation is the current one.
   */
  constructor(page) {
    this.page = page;
    this.conversation = addressed();
    this.drawn = null;
    this.writing = null;
    this.from = 0;
    this.held = null;
    this.order = 0;
    this.choices = new Latest();
    this.openings = new Latest();
    this.writes = single();
    this.unsure = false;
    this.staysPut = false;
    this.announcer = page.root.querySelector("#announcer");
    this.composer = new Composer(page.root, {
      send: (text) => this.send(text),
      stop: () => this.stop(),
      drafts: page.drafts,
      changed: () => this.meter.refresh(),
      isBusy: () => this.attachments.isReading,
    });
    this.attachments = new Attachments(page.root, {
      session: page.session,
      conversation: () => this.conversation,
      changed: () => this.meter.refresh(),
    });
    this.meter = new ContextMeter(page.root, {
      call: page.call,
      text: () => this.composer.box.value,
      files: () => this.attachments.named,
      conversation: () => this.conversation,
    });
  }

  // What the server tells

  takes(event) {
    return EVENTS.has(event.k);
  }

  event(event, number) {
    if (this.held) this.held.push([event, number]);
    else if (number >= this.from && event.c === this.conversation) this.show(event);
  }

  /** What is drawn is the chosen conversation: show what came for it meanwhile. */
  release() {
    const held = this.held ?? [];
    this.held = null;
    for (const [event, number] of held) this.event(event, number);
  }

  show(event) {
    learnNames(event.names);
    if (this.isBelow(event)) this.drawEvent(event);
    else this.reopen();
    this.page.changed();
  }

  drawEvent(event) {
    const { transcript, figures } = this.page;
    switch (event.k) {
      case "user":
        transcript.addUser(event.m, event.text, event.versions, event.files);
        break;
      case "start":
        transcript.start(event.m, event.details, event.versions);
        this.setWriting(event.m);
        figures.clear();
        break;
      case "resume":
        transcript.resume(event.m, event.details);
        this.setWriting(event.m);
        figures.clear();
        break;
      case "queued":
        this.showProgress(event.m, `In the queue, place ${event.place}`, 0);
        break;
      case "prefill":
        this.reading(event);
        break;
      case "tok":
        this.tokens(event);
        break;
      case "notice":
        transcript.note(event.m, event.text);
        break;
      case "end":
        this.ended(event);
        break;
      case "after":
        transcript.cutAfter(event.m);
        break;
      case "saved":
        transcript.end(event.m, event.details);
        break;
      default: // changed in a way that is not told piece by piece
        this.reopen();
    }
  }

  /** A new message goes below the one that it follows: another may have been drawn last. */
  isBelow({ k, m, parent }) {
    const { last, messages } = this.page.transcript;
    if ((k !== "user" && k !== "start") || parent === undefined || messages.has(m)) return true;
    return parent === (last?.id ?? null);
  }

  /** The open conversation again; the user stays where he is in it. */
  reopen() {
    this.open(this.conversation, true);
  }

  tokens({ m, at, add, stats, payoff, ...told }) {
    const { transcript, figures, viewBar } = this.page;
    if (this.isHidden(m)) return;
    if (!transcript.push(m, at, add, told)) {
      this.reopen();
      return;
    }
    if (told.drafters) viewBar.setDrafters(told.drafters);
    if (stats) {
      figures.setProgress(null);
      figures.show(stats, "This reply, live", payoff);
    }
  }

  /** Another version is shown in place of the one that is being written. */
  isHidden(message) {
    return message === this.writing && !this.page.transcript.has(message);
  }

  ended({ m, details }) {
    const { transcript, figures } = this.page;
    const isHidden = this.isHidden(m);
    transcript.end(m, details);
    this.setWriting(null);
    if (isHidden) return;
    figures.setProgress(null);
    figures.show(details.stats, "The last reply", details.payoff);
    const text = transcript.messages.get(m)?.reply.source.text ?? "";
    this.page.advise(this.conversation, transcript.messages.get(m));
    setText(this.announcer, text ? `Reply: ${text}` : (details.error?.message ?? ""));
  }

  reading({ m, done, total, reused }) {
    const kept = reused ? `, ${count(reused)} reused` : "";
    const text = `Reading the prompt: ${count(done)} of ${count(total)} tokens${kept}`;
    this.showProgress(m, text, total ? done / total : 1);
  }

  showProgress(message, text, fraction) {
    if (this.isHidden(message)) return;
    this.page.transcript.setProgress(message, text);
    this.page.figures.setProgress(text, fraction);
  }

  setWriting(message) {
    this.writing = message;
    this.page.root.dataset.writing = String(message !== null);
    this.composer.setWriting(message !== null);
    this.meter.refresh();
  }

  /** The page has a new session, which drew the conversation that was `asked` for. */
  greet(chat, asked) {
    this.openings.begin();
    this.held = null; // events of the old session
    this.from = chat.seq;
    this.staysPut = true;
    if (this.conversation === asked) this.draw(chat);
    else this.open(this.conversation);
  }

  draw({ conversation, messages, names, seq, writing = null, own = false }) {
    const { root, transcript, figures, viewBar, changed } = this.page;
    const stays = this.staysPut && conversation === this.drawn;
    this.staysPut = false;
    root.toggleAttribute("data-own", own);
    learnNames(names);
    this.conversation = this.drawn = conversation;
    this.from = seq;
    this.unsure = false;
    this.composer.show(conversation);
    this.attachments.draw();
    transcript.setStale(false);
    transcript.draw(messages, stays);
    this.setWriting(writing);
    const replies = messages.filter((message) => message.role === "assistant");
    viewBar.setDrafters([...new Set(replies.flatMap((reply) => reply.details.drafters ?? []))]);
    figures.clear();
    const latest = replies.at(-1)?.details;
    if (latest) figures.show(latest.stats, "The last reply", latest.payoff);
    this.keepAddress();
    changed();
    if (writing === null) this.page.advise(conversation, transcript.last);
    this.release();
  }

  // What is asked of the server

  nextOrder() {
    this.order += 1;
    return this.order;
  }

  /** The conversation that the user sees and writes to from now on. */
  choose(conversation) {
    this.conversation = conversation;
    this.composer.show(conversation);
    this.attachments.draw();
    this.keepAddress();
    this.page.chosen();
  }

  async open(conversation, staysPut = false) {
    const isLatest = this.openings.begin();
    this.held ??= [];
    this.staysPut = staysPut;
    if (!staysPut) {
      this.choices.begin();
      this.setWriting(null);
      this.choose(conversation);
    }
    if (conversation === null) {
      this.draw({ conversation, messages: [], seq: this.from });
      this.composer.focus();
    } else if (!staysPut) this.page.transcript.setStale(true);
    const went = await this.page.attempt(async () => {
      const chat = await this.page.call("open", { conversation, order: this.nextOrder() });
      if (isLatest()) this.drawAnswer(chat);
    });
    if (!went && isLatest()) this.openAgain(conversation);
  }

  drawAnswer(chat) {
    if (chat.conversation !== this.conversation) this.choose(chat.conversation);
    this.draw(chat);
  }

  /** It could not be opened: go back to what is drawn, which the server may have left by now. */
  openAgain(failed) {
    if (failed !== this.drawn) {
      this.open(this.drawn);
      return;
    }
    this.unsure = true;
    this.page.transcript.setStale(false);
    this.release();
  }

  /** The server answers again: it may not know yet what is shown here. */
  makeSure() {
    if (this.unsure) this.open(this.conversation);
  }

  /** True when the message was taken. */
  send(text) {
    return this.writes(() => this.sendTo(this.conversation, text));
  }

  /** A new chat becomes the conversation that its first message makes. */
  async sendTo(conversation, text) {
    const stays = this.choices.now();
    if (conversation === null) {
      this.openings.begin();
      this.held ??= [];
    }
    this.page.transcript.scrollToEnd();
    let made = conversation;
    const files = this.attachments.named;
    const attached = this.attachments.take();
    const args = { conversation, text, files, order: this.nextOrder() };
    const taken = await this.page.attempt(async () => {
      made = (await this.page.call("send", args)).conversation;
    });
    if (!taken) this.attachments.set(conversation, attached);
    if (stays()) this.settle(conversation, made);
    return taken;
  }

  settle(conversation, made) {
    if (made !== conversation) {
      this.composer.follow(made);
      if (conversation === null && this.held) this.begin(made);
      else this.open(made);
    } else if (conversation === null) this.release();
  }

  begin(conversation) {
    this.drawn = conversation;
    this.choose(conversation);
    this.release();
  }

  /** The new chat was begun by something else than a message: what is being written goes along. */
  adopt(conversation) {
    this.composer.follow(conversation);
    return this.open(conversation);
  }

  /** What makes another version: true when it was taken. */
  change(action, args) {
    return this.writes(() => this.page.attempt(() => this.page.call(action, args)));
  }

  stop() {
    if (this.conversation === null) return;
    this.page.attempt(() => this.page.call("stop", { conversation: this.conversation }));
  }

  answerNow() {
    return this.page.attempt(() =>
      this.page.call("answer_now", { conversation: this.conversation }),
    );
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
