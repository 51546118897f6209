/* What is said below a reply: notices, why it ended early, and what can be done about it. */

import { h } from "../shared/dom.js";
import { sentence } from "../shared/format.js";

const FULL =
  "The context is full, so the reply ends here. Start a new chat, or load the model with a larger context.";
const INTERRUPTED = "This reply was interrupted; what had arrived was kept.";

/** actions: { regenerate, newChat, openSettings, trim, canTrim, saveAgain } */
export function notesOf({ id, details }, actions) {
  const notes = (details.notices ?? []).map((text) => h("p", { class: "note" }, text));
  if (details.finish === "context") notes.push(fullNote(actions));
  if (details.finish === "interrupted") notes.push(h("p", { class: "note" }, INTERRUPTED));
  if (details.error) notes.push(errorNote(id, details.error, actions));
  if (details.unsaved) notes.push(unsavedNote(details.unsaved, actions));
  return notes;
}

function unsavedNote(reason, { saveAgain }) {
  const text = `This reply is not saved yet (${reason}). Forerun tries again by itself while it runs.`;
  const note = h("div", { class: "note error", role: "alert" }, h("p", {}, text));
  note.append(button("Save now", saveAgain));
  return note;
}

function fullNote({ newChat, openSettings }) {
  const larger = button("Larger context", () => openSettings("context_length"));
  return h("div", { class: "note warn" }, h("p", {}, FULL), button("New chat", newChat), larger);
}

function errorNote(id, error, { newChat, regenerate, trim, canTrim }) {
  const text = h("p", {}, sentence(error.message));
  const note = h("div", { class: "note error", role: "alert" }, text);
  if (error.kind !== "ContextLengthError") {
    note.append(button("Try again", () => regenerate(id)));
    return note;
  }
  if (canTrim()) note.append(button("Leave out the oldest messages", () => trim(id)));
  note.append(button("New chat", newChat));
  return note;
}

function button(label, onclick) {
  return h("button", { type: "button", class: "button", onclick }, label);
}
