/* Chats in and out: files to download, and files of this and other programs to read. */

import { h, setText } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { InOrder, once } from "../shared/requests.js";

const SOURCES =
  "Exports of Forerun, ChatGPT (conversations.json or the zip), Open WebUI, LM Studio, " +
  "llama-server and ShareGPT. Choose files here, or drop them on the list of chats.";
const SILENT = "Forerun does not answer.";

export class Exchange {
  /** page: { session, current } — the page's session, and the chat it shows. */
  constructor(root, page) {
    this.page = page;
    this.dialog = root.querySelector("#exchange-dialog");
    this.uploads = new InOrder();
    this.problem = h("p", { class: "field-error", role: "alert" });
    this.results = h("div", { class: "exchange-results", role: "status" });
    this.files = h("input", {
      type: "file",
      multiple: true,
      hidden: true,
      id: "exchange-files",
      "aria-label": "Files with chats",
    });
    this.files.addEventListener("change", () => {
      this.take([...this.files.files]);
      this.files.value = ""; // the same file can be chosen again
    });
    root.querySelector("#exchange-body").append(this.exportPart(), this.importPart(), this.results);
    this.catchDrops(root.querySelector("#sidebar"));
    this.catchDrops(this.dialog);
  }

  exportPart() {
    const give = (text, form, whole) =>
      h(
        "button",
        { type: "button", class: "button", onclick: once(() => this.download(form, whole)) },
        text,
      );
    this.single = [give("This chat, JSON", "json"), give("This chat, Markdown", "markdown")];
    const all = [
      give("All chats, JSON", "json", true),
      give("All chats, Markdown", "markdown", true),
    ];
    const about = "JSON keeps everything and can be imported again; Markdown is for reading.";
    return h(
      "section",
      {},
      h("h3", {}, "Export"),
      h("p", { class: "empty-note" }, about),
      h("div", { class: "exchange-buttons" }, ...this.single, ...all),
      this.problem,
    );
  }

  importPart() {
    const choose = h(
      "button",
      { type: "button", class: "button primary", onclick: () => this.files.click() },
      "Choose files",
    );
    return h(
      "section",
      {},
      h("h3", {}, "Import"),
      h("p", { class: "empty-note" }, SOURCES),
      h("div", { class: "exchange-buttons" }, choose, this.files),
    );
  }

  open() {
    if (this.dialog.open) return;
    for (const button of this.single) button.disabled = this.page.current() === null;
    setText(this.problem, "");
    this.dialog.showModal();
  }

  catchDrops(target) {
    const marked = (on) => target.classList.toggle("dropping", on);
    target.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      marked(true);
    });
    target.addEventListener("dragleave", () => marked(false));
    target.addEventListener("drop", (event) => {
      marked(false);
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  /** One file after the other: each needs much memory at the server. */
  take(files) {
    this.open();
    for (const file of files) {
      const row = new ImportRow(file.name);
      this.results.prepend(row.element);
      this.uploads.run(() => upload(file, this.page.session(), row));
    }
  }

  async download(format, whole) {
    setText(this.problem, "");
    const asked = new URLSearchParams({ session: this.page.session(), format });
    if (!whole) asked.set("chat", this.page.current());
    try {
      const answer = await fetch(new URL(`chats/export?${asked}`, document.baseURI));
      if (!answer.ok) throw new Refused((await answer.json()).error);
      save(await answer.blob(), nameIn(answer.headers.get("content-disposition")));
    } catch (error) {
      setText(this.problem, error instanceof Refused ? error.message : SILENT);
    }
  }
}

class Refused extends Error {}

/** What became of one file. */
class ImportRow {
  constructor(name) {
    this.name = name;
    this.state = h("p", {}, "waiting");
    this.bar = h("progress", { max: 1, value: 0, "aria-label": `Import of ${name}` });
    this.left = h("ul", { class: "exchange-skipped" });
    this.element = h("section", { class: "exchange-file" }, h("h4", {}, name));
    this.element.append(this.state, this.bar, this.left);
  }

  sent(part) {
    this.bar.value = part;
    setText(this.state, part < 1 ? "sending" : "reading and storing");
    if (part >= 1) this.bar.removeAttribute("value");
  }

  done(summary) {
    this.bar.remove();
    const chats = `${count(summary.chats)} chat${summary.chats === 1 ? "" : "s"}`;
    const messages = `${count(summary.messages)} message${summary.messages === 1 ? "" : "s"}`;
    const beside = summary.beside
      ? ` ${count(summary.beside)} more came with them: other versions, system texts.`
      : "";
    const from = summary.formats.join(", ");
    setText(this.state, `Imported from ${from}: ${chats}, ${messages}.${beside}`);
    const unnamed = summary.skipped_count - summary.skipped.length;
    const lines = summary.skipped.map(({ what, reason }) => `Left out: ${what}: ${reason}`);
    if (unnamed) lines.push(`Left out: ${count(unnamed)} more`);
    this.left.replaceChildren(...lines.map((line) => h("li", {}, line)));
  }

  failed(reason) {
    this.bar.remove();
    this.element.classList.add("failed");
    setText(this.state, `Nothing was imported: ${reason}`);
  }
}

/** Resolves when the file is done with. XMLHttpRequest, since it tells how much was sent. */
function upload(file, session, row) {
  const asked = new URLSearchParams({ session, name: file.name });
  const request = new XMLHttpRequest();
  request.open("POST", new URL(`chats/import?${asked}`, document.baseURI));
  request.setRequestHeader("content-type", "application/octet-stream");
  request.responseType = "json";
  return new Promise((resolve) => {
    request.upload.addEventListener("progress", ({ loaded, total }) =>
      row.sent(total ? loaded / total : 1),
    );
    request.addEventListener("load", () => {
      if (request.status === 200) row.done(request.response);
      else row.failed(request.response?.error ?? `the answer was ${request.status}`);
    });
    request.addEventListener("error", () => row.failed(SILENT));
    request.addEventListener("loadend", resolve);
    row.sent(0);
    request.send(file);
  });
}

function nameIn(disposition) {
  return /filename="([\w.-]+)"/.exec(disposition ?? "")?.[1] ?? "forerun-chats";
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
