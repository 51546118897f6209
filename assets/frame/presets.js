/* Presets: one to choose for the chat, and the list of them to save, rename, delete and import. */

import { h, icon, setText } from "../shared/dom.js";
import { labelled, select } from "../shared/fields.js";
import { InOrder, once } from "../shared/requests.js";

const NONE = "";
const CARDS =
  "Character cards (PNG, JSON or .charx) become presets: choose files, or drop them here.";
const SILENT = "Forerun does not answer.";

export class PresetList {
  /** page: { call(action, args): with the chat, ask, session, refresh } */
  constructor(page) {
    this.page = page;
    this.uploads = new InOrder();
    this.chosen = select("chat-preset", []);
    this.chosen.addEventListener("change", () => this.choose());
    this.choice = h(
      "div",
      { class: "preset-choice" },
      labelled("chat-preset", "Preset", this.chosen),
    );
    this.list = h("ul", { class: "preset-list" });
    this.name = h("input", {
      id: "preset-name",
      type: "text",
      maxlength: "100",
      placeholder: "Name",
      "aria-label": "Name of the new preset",
    });
    this.told = h("p", { class: "empty-note", role: "status" });
    this.element = h(
      "fieldset",
      { class: "presets" },
      h("legend", {}, "Presets"),
      this.saver(),
      this.list,
      h("p", { class: "group-note" }, CARDS),
      this.importer(),
      this.told,
    );
  }

  saver() {
    const save = button("Save as preset", () => this.save());
    this.name.addEventListener("keydown", (event) => {
      if (event.key === "Enter") save.click();
    });
    return h("div", { class: "preset-row" }, this.name, save);
  }

  importer() {
    const files = h("input", {
      type: "file",
      multiple: true,
      hidden: true,
      id: "card-files",
      accept: ".png,.json,.charx",
      "aria-label": "Character cards",
    });
    files.addEventListener("change", () => {
      this.take([...files.files]);
      files.value = ""; // the same file can be chosen again
    });
    return h(
      "div",
      { class: "preset-row" },
      button("Import cards", () => files.click()),
      files,
    );
  }

  show({ presets, preset, default: usual }) {
    const known = presets.some(({ name }) => name === preset);
    const gone = preset && !known ? [h("option", { value: preset }, `${preset} (deleted)`)] : [];
    const options = presets.map(({ name }) => h("option", { value: name }, name));
    const none = h("option", { value: NONE }, "None: the general settings");
    this.chosen.replaceChildren(none, ...gone, ...options);
    this.chosen.value = preset;
    this.list.replaceChildren(...presets.map((one) => this.row(one, one.name === usual)));
  }

  row({ name, character }, isDefault) {
    const row = h("li", { "data-name": name });
    const step = (kind, to = null) => this.page.call("preset_step", { name, step: kind, to });
    const mark = h("label", { class: "preset-default" });
    const box = h("input", { type: "checkbox" });
    box.checked = isDefault;
    box.addEventListener("change", () =>
      this.page.call("preset_step", { name: box.checked ? name : NONE, step: "default", to: null }),
    );
    mark.append(box, "for new chats");
    const title = h("span", { class: "preset-name", title: name }, name);
    if (character) title.prepend(icon("persona"));
    row.append(
      title,
      mark,
      button("Rename", () => this.rename(row, name, step), "quiet-button"),
      button("Delete", () => this.remove(name, step), "quiet-button"),
    );
    return row;
  }

  rename(row, name, step) {
    const box = h("input", { type: "text", "aria-label": `New name of ${name}`, maxlength: "100" });
    box.value = name;
    const finish = once(async (wanted) => {
      const to = box.value.trim();
      if (!wanted || !to || to === name) await this.page.refresh();
      else if (!(await step("rename", to))) box.focus();
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") finish(true);
      if (event.key !== "Escape") return;
      event.preventDefault(); // the dialog stays open
      finish(false);
    });
    row.replaceChildren(
      box,
      button("Rename", () => finish(true)),
    );
    box.focus();
  }

  async remove(name, step) {
    const text = "Chats that were begun with it keep what they have of it.";
    if (await this.page.ask({ title: `Delete “${name}”?`, text, yes: "Delete" }))
      await step("delete");
  }

  async save() {
    const name = this.name.value.trim();
    const known = [...this.list.children].some(
      (row) => row.dataset.name.toLowerCase() === name.toLowerCase(),
    );
    const text = "What it holds is replaced by the settings of this chat.";
    const question = { title: `Replace “${name}”?`, text, yes: "Replace" };
    if (known && !(await this.page.ask(question))) return;
    if (await this.page.call("preset_save", { name, over: known })) this.name.value = "";
  }

  /** A character can only begin a chat: its greeting is the first message. */
  choose() {
    return this.page.call("chat_preset", { preset: this.chosen.value || null });
  }

  catchDrops(target) {
    target.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
    });
    target.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  take(files) {
    for (const file of files) this.uploads.run(() => this.upload(file));
  }

  async upload(file) {
    setText(this.told, `Reading ${file.name}`);
    const asked = new URLSearchParams({ session: this.page.session(), name: file.name });
    const headers = { "content-type": "application/octet-stream" };
    try {
      const address = new URL(`presets/import?${asked}`, document.baseURI);
      const answer = await fetch(address, { method: "POST", headers, body: file });
      const card = await answer.json();
      setText(this.told, answer.ok ? takenText(card) : `Not imported: ${card.error}`);
      if (answer.ok) await this.page.refresh();
    } catch (error) {
      if (!(error instanceof TypeError) && !(error instanceof SyntaxError)) throw error;
      setText(this.told, SILENT);
    }
  }
}

function takenText({ name, greetings, entries }) {
  const parts = [`“${name}” is a preset now`];
  if (greetings) parts.push(`${greetings} greeting${greetings === 1 ? "" : "s"}`);
  if (entries) parts.push(`${entries} lorebook entr${entries === 1 ? "y" : "ies"}`);
  return `${parts.join(", ")}. Choose it in a new chat to begin with its greeting.`;
}

function button(label, onclick, kind = "button") {
  return h("button", { type: "button", class: kind, onclick: once(onclick) }, label);
}
