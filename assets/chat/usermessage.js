/* A message of the user's: its text, its buttons, and the form that edits it. */

import { copyText, h, iconButton } from "../shared/dom.js";
import { markLanguage } from "./rendering/language.js";
import { once } from "../shared/requests.js";

export class UserMessage {
  /** actions: { edit(id, text) }, which resolves to true when the new text was taken. */
  constructor(id, text, actions) {
    this.id = id;
    this.role = "user";
    this.text = text;
    this.actions = actions;
    this.body = h("div", { class: "user-text", dir: "auto" }, text);
    markLanguage(this.body, text);
    this.buttons = h(
      "div",
      { class: "message-buttons" },
      iconButton("edit", "Edit and send again", () => this.startEdit()),
      iconButton("copy", "Copy", (event) => copyText(text, event.currentTarget)),
    );
    const name = { class: "message user", "aria-label": "You" };
    this.element = h("article", name, this.body, this.buttons);
  }

  get isEditing() {
    return this.body.hidden;
  }

  startEdit() {
    const box = h("textarea", { class: "edit-box", "aria-label": "Edit your message" });
    box.value = this.text;
    box.rows = Math.min(12, this.text.split("\n").length + 1);
    const close = () => {
      form.remove();
      this.body.hidden = this.buttons.hidden = false;
    };
    const send = once(async () => {
      box.readOnly = true;
      const sent = await this.actions.edit(this.id, box.value);
      box.readOnly = false;
      if (sent) close();
    });
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
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send();
      }
    });
    this.body.hidden = this.buttons.hidden = true;
    this.element.prepend(form);
    box.focus();
  }
}
