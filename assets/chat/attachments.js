/* Files that are to go with the next message: dropped anywhere, pasted, or chosen. Each is read by
   the server at once, and shown as a chip above the message box. */

import { h, iconButton } from "../shared/dom.js";
import { bytes } from "../shared/format.js";

const MOST = 10;
const SILENT = "Forerun does not answer.";

class Refused extends Error {}

export class Attachments {
  /** page: { session(), conversation(), changed() }. changed: other files go with the message. */
  constructor(root, page) {
    this.page = page;
    this.list = root.querySelector("#attachments");
    this.input = root.querySelector("#attach-input");
    this.byChat = new Map();
    root.querySelector("#attach").addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => {
      this.add(this.input.files);
      this.input.value = "";
    });
    root.querySelector("#message-box").addEventListener("paste", (event) => {
      if (!event.clipboardData?.files.length) return;
      event.preventDefault();
      this.add(event.clipboardData.files);
    });
    // Wherever it falls, a file must not take the page's place.
    document.addEventListener("dragover", (event) => {
      if (carriesFiles(event)) event.preventDefault();
    });
    document.addEventListener("drop", (event) => {
      if (!carriesFiles(event) || event.defaultPrevented) return;
      event.preventDefault();
      if (!root.querySelector("dialog[open]")) this.add(event.dataTransfer.files);
    });
  }

  get files() {
    return this.byChat.get(this.page.conversation()) ?? [];
  }

  /** What the server is told of those that are read. */
  get named() {
    return this.files.filter((file) => file.sha256).map(({ sha256, name }) => ({ sha256, name }));
  }

  get isReading() {
    return this.files.some((file) => !file.sha256 && !file.error);
  }

  /** They go with a message, and come back if it is not taken. */
  take() {
    const taken = this.files;
    this.set(this.page.conversation(), []);
    return taken;
  }

  set(conversation, files) {
    this.byChat.set(conversation, files);
    this.draw();
    this.page.changed();
  }

  async add(chosen) {
    const conversation = this.page.conversation();
    for (const file of chosen) {
      const held = this.byChat.get(conversation) ?? [];
      const entry = { name: file.name, bytes: file.size, sha256: null, error: "" };
      if (held.length >= MOST) entry.error = `at most ${MOST} files can go with a message`;
      this.set(conversation, [...held, entry]);
      if (entry.error) continue;
      try {
        Object.assign(entry, await this.read(file));
      } catch (error) {
        entry.error = error instanceof Refused ? error.message : SILENT;
      }
      this.draw();
      this.page.changed();
    }
  }

  async read(file) {
    const asked = new URLSearchParams({ session: this.page.session(), name: file.name });
    const address = new URL(`files/read?${asked}`, document.baseURI);
    const answer = await fetch(address, { method: "POST", body: file });
    const told = await answer.json();
    if (told.error) throw new Refused(told.error);
    return told;
  }

  draw() {
    this.list.hidden = !this.files.length;
    this.list.replaceChildren(...this.files.map((file) => this.chip(file)));
  }

  chip(file) {
    const others = () => this.files.filter((one) => one !== file);
    const remove = iconButton("close", `Remove ${file.name}`, () =>
      this.set(this.page.conversation(), others()),
    );
    const state = file.error || (file.sha256 ? bytes(file.bytes) : "reading…");
    const name = h("bdi", { class: "chip-name" }, file.name);
    const chip = h("li", { class: "chip" }, name, h("span", {}, state), remove);
    if (file.error) chip.dataset.state = "refused";
    return chip;
  }
}

/** The files of a message that was sent. */
export function sentFiles(files) {
  if (!files?.length) return null;
  const chip = ({ name, bytes: size }) =>
    h("li", { class: "chip" }, h("bdi", { class: "chip-name" }, name), h("span", {}, bytes(size)));
  return h("ul", { class: "attachments", "aria-label": "Files" }, ...files.map(chip));
}

const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
