/* What makes and chooses versions of messages, deletes them, and forks chats. */

import { count } from "../shared/format.js";
import { editForm } from "./editform.js";
import { InOrder } from "../shared/requests.js";

export class Branches {
  /** page: { call, attempt, chat, surroundings: { ask, toast } } */
  constructor(page) {
    this.page = page;
    this.selections = new InOrder();
  }

  /** The server tells all pages that show the chat. */
  select(message) {
    const { attempt, call } = this.page;
    return this.selections.run(() => attempt(() => call("select", { message })));
  }

  /** The text of a reply as the user wants it, beside what was written. */
  edit(entry) {
    const { form, box } = editForm(entry.reply.source.text, {
      label: "Edit this reply",
      hint: "This makes another version: the old one stays, with all that followed it.",
      submit: "Keep",
      send: (text) => this.page.chat.change("edit_reply", { message: entry.id, text }),
      closed: () => {
        entry.isEditing = false;
        entry.body.hidden = entry.footer.hidden = false;
      },
    });
    entry.isEditing = true;
    entry.body.hidden = entry.footer.hidden = true;
    entry.body.before(form);
    box.focus();
  }

  async fork(message) {
    await this.page.attempt(async () => {
      const { conversation } = await this.page.call("fork", { message });
      this.page.chat.open(conversation);
    });
  }

  /** Asks first where more than the message itself goes; can be undone. */
  async remove(message) {
    const { attempt, call, surroundings } = this.page;
    await attempt(async () => {
      const { messages } = await call("subtree", { message });
      if (messages > 1 && !(await surroundings.ask(questionOf(messages)))) return;
      await call("delete_message", { message });
      const undo = () => attempt(() => call("restore_message", { message }));
      surroundings.toast(`Deleted ${messagesOf(messages)}`, { label: "Undo", run: undo });
    });
  }
}

function questionOf(messages) {
  return {
    title: `Delete ${messagesOf(messages)}?`,
    text: "All that follows the message goes with it, in all its versions.",
    yes: "Delete",
  };
}

function messagesOf(number) {
  return number === 1 ? "1 message" : `${count(number)} messages`;
}
