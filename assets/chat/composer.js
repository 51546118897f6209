/* Where messages are written: the box, its drafts, and the buttons that send and stop.

   What is typed is the user's: sending takes the text out of the box at once, so that whatever is
   typed next stays, and a message that was not taken comes back in front of it. */

import { once } from "../shared/requests.js";

export class Composer {
  /**
   * actions: { send(text), stop(), drafts, changed() }. send resolves to true when the message was
   * taken; changed: another text is in the box.
   */
  constructor(root, actions) {
    this.actions = actions;
    this.conversation = undefined;
    this.pending = null;
    this.box = root.querySelector("#message-box");
    this.sendButton = root.querySelector("#send");
    this.stopButton = root.querySelector("#stop");
    this.send = once(() => this.sendText());
    root.querySelector("#composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        this.send();
      }
    });
    this.box.addEventListener("input", () => {
      this.fitHeight();
      this.keep();
      actions.changed();
    });
    this.stopButton.addEventListener("click", () => actions.stop());
  }

  async sendText() {
    const text = this.box.value.trim();
    if (!text || this.writing) return;
    const from = this.conversation;
    this.pending = { from, text };
    this.setText("");
    const taken = await this.actions.send(text);
    const isHere = from === this.conversation;
    if (!taken && isHere) this.setText([text, this.box.value].filter(Boolean).join("\n"));
    if (taken && !isHere) this.actions.drafts.set(from, this.draftOf(from));
    this.pending = null;
    this.keep();
  }

  /** The conversation that is written to is another one now: its own draft comes into the box. */
  show(conversation) {
    if (conversation === this.conversation) return;
    if (this.conversation !== undefined) this.keep();
    this.conversation = conversation;
    this.setText(this.draftOf(conversation));
  }

  /** The new conversation has become this one: what is being typed goes along. */
  follow(conversation) {
    this.actions.drafts.set(this.conversation, "");
    this.conversation = conversation;
    this.keep();
  }

  setText(text) {
    if (this.box.value === text) return;
    this.box.value = text;
    this.fitHeight();
    this.actions.changed();
  }

  /** A message on its way is a draft still: it may not arrive. */
  keep() {
    const parts = [this.onItsWay(this.conversation), this.box.value].filter(Boolean);
    this.actions.drafts.set(this.conversation, parts.join("\n"));
  }

  onItsWay(conversation) {
    return this.pending?.from === conversation ? this.pending.text : "";
  }

  /** What is kept of it, but for the message that is on its way. */
  draftOf(conversation) {
    const [draft, sent] = [this.actions.drafts.get(conversation), this.onItsWay(conversation)];
    return sent && draft.startsWith(sent) ? draft.slice(sent.length).replace(/^\n/, "") : draft;
  }

  setWriting(writing) {
    this.writing = writing;
    this.sendButton.hidden = writing;
    this.stopButton.hidden = !writing;
  }

  focus() {
    this.box.focus();
  }

  fitHeight() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight, innerHeight / 3)}px`;
  }
}
