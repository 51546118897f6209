/* Where messages are written: the box, and the buttons that send and stop. */

export class Composer {
  /** actions: { send(text), stop() }. send resolves to true when the message was taken. */
  constructor(root, actions) {
    this.actions = actions;
    this.box = root.querySelector("#message-box");
    this.sendButton = root.querySelector("#send");
    this.stopButton = root.querySelector("#stop");
    root.querySelector("#composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send();
      }
    });
    this.box.addEventListener("input", () => this.fitHeight());
    this.stopButton.addEventListener("click", () => actions.stop());
  }

  async send() {
    const text = this.box.value.trim();
    if (!text || !(await this.actions.send(text))) return;
    this.box.value = "";
    this.fitHeight();
  }

  setWriting(writing) {
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
