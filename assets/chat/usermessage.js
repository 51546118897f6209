/* A message of the user's: its text, its buttons, and the form that edits it. */

import { copyText, h, iconButton } from "../shared/dom.js";
import { sentFiles } from "./attachments.js";
import { editForm } from "./editform.js";
import { menuButton } from "./messagemenu.js";
import { markLanguage } from "./rendering/language.js";

export class UserMessage {
  /** actions: { edit(id, text), which resolves to true when the new text was taken, fork(id),
      remove(id), switcher: of its versions } */
  constructor(id, text, actions, files) {
    this.id = id;
    this.role = "user";
    this.text = text;
    this.actions = actions;
    this.body = h("div", { class: "user-text", dir: "auto" }, text);
    this.switcher = actions.switcher;
    markLanguage(this.body, text);
    this.buttons = h(
      "div",
      { class: "message-buttons" },
      this.switcher.element,
      iconButton("edit", "Edit and send again", () => this.startEdit()),
      iconButton("copy", "Copy", (event) => copyText(text, event.currentTarget)),
      menuButton(() => [
        ["Fork into a new chat", () => actions.fork(id)],
        ["Delete", () => actions.remove(id)],
      ]),
    );
    const name = { class: "message user", "aria-label": "You" };
    this.element = h("article", name, sentFiles(files), this.body, this.buttons);
  }

  get isEditing() {
    return this.body.hidden;
  }

  isSame({ content }) {
    return this.text === content;
  }

  startEdit() {
    const { form, box } = editForm(this.text, {
      label: "Edit your message",
      hint: "This makes another version: the old one stays, with all that followed it.",
      submit: "Send",
      send: (text) => this.actions.edit(this.id, text),
      closed: () => (this.body.hidden = this.buttons.hidden = false),
    });
    this.body.hidden = this.buttons.hidden = true;
    this.element.prepend(form);
    box.focus();
  }
}
