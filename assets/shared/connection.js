/* The line to the server: requests, and a numbered stream of events that misses nothing.

   The stream arrives as values of one gradio component. Numbers tell gaps, and the page
   asks again for what it missed; if the server was restarted, everything is drawn anew. The
   stream ends when nothing happens; the heartbeat or the next request opens it again. */

import { Latest, once } from "./requests.js";

const HEARTBEAT = 3000;
const MOST_UNANSWERED = 3;

export class RequestFailed extends Error {
  constructor({ kind, message }) {
    super(message);
    this.kind = kind;
  }
}

export class Connection {
  /**
   * bridge: what gradio gives the page. handlers: { hello, event, online, conversation }.
   * last: where the session is kept over a reload of this tab, as Kept.
   */
  constructor(bridge, handlers, last) {
    this.bridge = bridge;
    this.last = last;
    this.handlers = handlers;
    this.session = null;
    this.next = 0;
    this.busy = Promise.resolve();
    this.online = true;
    this.beats = new Latest();
    this.unanswered = 0;
    this.greet = once(() => this.begin());
  }

  async start() {
    this.bridge.onValue(() => this.receive(this.bridge.value()));
    await this.greet();
    setInterval(() => this.beat(), HEARTBEAT);
  }

  /** A new session. It takes over what the one before, or this tab before a reload, had running. */
  async begin() {
    const conversation = this.handlers.conversation();
    const before = this.session ?? this.last.get();
    const hello = await this.bridge.server.hello({ conversation, before });
    this.session = hello.session;
    this.next = 0;
    this.last.set(this.session);
    this.handlers.hello(hello, conversation);
    this.follow();
  }

  follow() {
    this.bridge.follow({ session: this.session, after: this.next });
  }

  /** One request; throws RequestFailed with a message for the user. */
  async call(action, args = {}) {
    const { session } = this;
    let answer = await this.ask(action, args);
    if (answer.error?.kind === "SessionLost") {
      if (session === this.session) await this.reaching(() => this.greet());
      answer = await this.ask(action, args);
    }
    if (answer.error) throw new RequestFailed(answer.error);
    if (!answer.attached) this.follow();
    return answer.result;
  }

  ask(action, args) {
    const request = { session: this.session, action, arguments: args };
    return this.reaching(() => this.bridge.server.call(request));
  }

  async reaching(request) {
    try {
      return await request();
    } catch {
      this.setOnline(false);
      throw new RequestFailed({ kind: "Offline", message: "Forerun does not answer." });
    }
  }

  receive(json) {
    if (!json) return;
    const envelope = JSON.parse(json);
    this.busy = this.busy.then(() => this.apply(envelope)).catch(() => this.setOnline(false));
  }

  async apply(envelope) {
    if (envelope.session === this.session && envelope.seq > this.next) {
      const missed = await this.resync();
      if (missed.unknown || missed.lost) return;
      this.deliver(missed);
    }
    this.deliver(envelope);
  }

  resync() {
    return this.bridge.server.resync({ session: this.session, after: this.next });
  }

  /** Numbers count within a session: what an earlier one still brings is no part of it. */
  deliver({ session, seq, events }) {
    if (session !== this.session) return;
    events.forEach((event, index) => {
      if (seq + index < this.next) return;
      this.next = seq + index + 1;
      this.handlers.event(event, seq + index);
    });
  }

  /** A server that hangs answers nothing, not even with an error. */
  async beat() {
    if (this.unanswered === MOST_UNANSWERED) {
      this.setOnline(false);
      return;
    }
    this.unanswered += 1;
    const isLatest = this.beats.begin();
    const { session } = this;
    try {
      const state = await this.resync();
      if (!isLatest() || session !== this.session) return;
      this.setOnline(true);
      if (state.unknown || state.lost) {
        await this.greet();
        return;
      }
      // The stream may be about to bring the same events: in order, after what is under way.
      this.busy = this.busy.then(() => this.deliver(state));
      if (state.events.length && !state.attached) this.follow();
    } catch {
      if (isLatest()) this.setOnline(false);
    } finally {
      this.unanswered -= 1;
    }
  }

  setOnline(online) {
    if (online !== this.online) {
      this.online = online;
      this.handlers.online(online);
    }
  }
}
