/* The line to the server: requests, and a numbered stream of events that misses nothing.

   The stream arrives as values of one gradio component. Numbers tell gaps, and the page
   asks again for what it missed; if the server was restarted, everything is drawn anew. The
   stream ends when nothing happens; the heartbeat or the next request opens it again. */

const HEARTBEAT = 3000;

export class RequestFailed extends Error {
  constructor({ kind, message }) {
    super(message);
    this.kind = kind;
  }
}

export class Connection {
  /** bridge: what gradio gives the page. handlers: { hello, event, online }. */
  constructor(bridge, handlers) {
    this.bridge = bridge;
    this.handlers = handlers;
    this.session = null;
    this.next = 0;
    this.busy = Promise.resolve();
    this.online = true;
  }

  async start(conversation) {
    this.bridge.onValue(() => this.receive(this.bridge.value()));
    await this.greet(conversation);
    setInterval(() => this.beat(), HEARTBEAT);
  }

  async greet(conversation) {
    const hello = await this.bridge.server.hello({ conversation });
    this.session = hello.session;
    this.next = 0;
    this.handlers.hello(hello);
    this.follow();
  }

  follow() {
    this.bridge.follow({ session: this.session, after: this.next });
  }

  /** One request; throws RequestFailed with a message for the user. */
  async call(action, args = {}) {
    let answer;
    try {
      answer = await this.bridge.server.call({ session: this.session, action, arguments: args });
    } catch {
      this.setOnline(false);
      throw new RequestFailed({ kind: "Offline", message: "Forerun does not answer." });
    }
    if (answer.error) throw new RequestFailed(answer.error);
    if (!answer.attached) this.follow();
    return answer.result;
  }

  receive(json) {
    if (!json) return;
    const envelope = JSON.parse(json);
    this.busy = this.busy.then(() => this.apply(envelope)).catch(() => this.setOnline(false));
  }

  async apply(envelope) {
    if (envelope.seq > this.next) {
      const missed = await this.bridge.server.resync({ session: this.session, after: this.next });
      if (missed.unknown || missed.lost) return;
      this.deliver(missed);
    }
    this.deliver(envelope);
  }

  deliver({ seq, events }) {
    events.forEach((event, index) => {
      if (seq + index < this.next) return;
      this.next = seq + index + 1;
      this.handlers.event(event, seq + index);
    });
  }

  async beat() {
    try {
      const state = await this.bridge.server.resync({ session: this.session, after: this.next });
      this.setOnline(true);
      if (state.unknown || state.lost) {
        await this.greet(this.handlers.conversation());
        return;
      }
      // The stream may be about to bring the same events: in order, after what is under way.
      this.busy = this.busy.then(() => this.deliver(state));
      if (state.events.length && !state.attached) this.follow();
    } catch {
      this.setOnline(false);
    }
  }

  setOnline(online) {
    if (online !== this.online) {
      this.online = online;
      this.handlers.online(online);
    }
  }
}
