/* The models dialog: the catalogue, files of any Hub repository, and running downloads. */

import { h, setText } from "../shared/dom.js";
import { bytes, seconds } from "../shared/format.js";
import { Latest, once } from "../shared/requests.js";

const STATES = {
  waiting: "waiting",
  running: "",
  done: "ready to use",
  failed: "failed",
  cancelled: "cancelled",
};

export class Models {
  /** page: { call, toast, use, refresh } */
  constructor(root, page) {
    this.page = page;
    this.listings = new Latest();
    this.folderChanges = new Latest();
    this.rows = new Map();
    this.active = new Set();
    this.targets = [];
    this.downloads = h("ul", { class: "downloads" });
    this.none = h("p", { class: "empty-note" }, "No downloads.");
    this.catalogue = h("ul", { class: "catalogue" });
    this.files = h("ul", { class: "catalogue" });
    this.repository = h("input", {
      type: "text",
      id: "repository",
      placeholder: "owner/repo",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.problem = h("p", { class: "field-error", role: "alert" });
    const form = h(
      "form",
      { class: "repository-form" },
      h("label", { for: "repository" }, "Repository on the Hub"),
      h("div", {}, this.repository, h("button", { type: "submit", class: "button" }, "List files")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.listFiles();
    });
    this.folders = h("ul", { class: "catalogue" });
    this.folder = h("input", {
      type: "text",
      id: "model-folder",
      placeholder: "Whole path of a folder with GGUF files or heads",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.folderProblem = h("p", { class: "field-error", role: "alert" });
    const add = h("button", { type: "submit", class: "button" }, "Add folder");
    const folderForm = h(
      "form",
      { class: "repository-form" },
      h("label", { for: "model-folder" }, "Models in it are listed; nothing is copied"),
      h("div", {}, this.folder, add),
    );
    folderForm.addEventListener("submit", (event) => {
      event.preventDefault();
      this.changeFolders("add", this.folder.value.trim());
    });
    root.append(
      h("section", {}, h("h3", {}, "Downloads"), this.none, this.downloads),
      h("section", {}, h("h3", {}, "Catalogue"), this.catalogue),
      h("section", {}, h("h3", {}, "Your folders"), this.folders, folderForm, this.folderProblem),
      h("section", {}, h("h3", {}, "Any other model"), form, this.problem, this.files),
    );
  }

  showCatalogue(targets, wanted = null) {
    this.targets = targets;
    const rows = targets.map((option) => this.catalogueRow(option));
    this.catalogue.replaceChildren(...rows);
    const row = rows.find((one) => one.dataset.model === wanted);
    if (row) {
      row.classList.add("wanted");
      row.scrollIntoView({ block: "center" });
      row.querySelector("button")?.focus();
    }
  }

  catalogueRow(option) {
    const text = h("span", { class: "row-text" }, h("b", {}, option.label));
    text.append(h("small", {}, option.detail));
    const row = h("li", { "data-model": option.value }, text);
    if (this.active.has(option.value)) {
      row.append(h("small", {}, "downloading"));
    } else if (option.action) {
      row.append(this.button("Download", () => this.tell("fetch", { model: option.value })));
    } else if (option.reason) {
      row.append(h("small", {}, option.reason));
    } else {
      row.append(this.button("Use as target", () => this.page.use(option.value)));
    }
    return row;
  }

  /** step: "list", or "add" or "remove" with a path */
  async changeFolders(step, path = "") {
    const isLatest = this.folderChanges.begin();
    const written = this.folder.value;
    setText(this.folderProblem, "");
    try {
      const folders = await this.page.call("folders", { step, path });
      if (step === "add" && this.folder.value === written) this.folder.value = "";
      if (step !== "list") this.page.refresh();
      if (!isLatest()) return;
      const remove = (folder) => this.button("Remove", () => this.changeFolders("remove", folder));
      const rows = folders.map((folder) =>
        h("li", {}, h("span", { class: "row-text" }, folder), remove(folder)),
      );
      this.folders.replaceChildren(...rows);
    } catch (error) {
      if (isLatest()) setText(this.folderProblem, error.message);
    }
  }

  async listFiles() {
    const isLatest = this.listings.begin();
    const repository = this.repository.value.trim();
    setText(this.problem, "");
    this.files.replaceChildren(h("li", {}, "Asking the Hub"));
    try {
      const files = await this.page.call("repository", { repository });
      if (!isLatest()) return;
      const rows = files.map((file) => this.fileRow(repository, file));
      this.files.replaceChildren(...rows);
      if (!rows.length) setText(this.problem, "This repository has no GGUF files.");
    } catch (error) {
      if (!isLatest()) return;
      this.files.replaceChildren();
      setText(this.problem, error.message);
    }
  }

  fileRow(repository, file) {
    const text = h("span", { class: "row-text" }, h("b", {}, file.name));
    text.append(h("small", {}, [file.quant, bytes(file.bytes)].filter(Boolean).join(" · ")));
    const start = () => this.tell("fetch", { repository, name: file.name });
    return h("li", {}, text, this.button("Download", start));
  }

  async tell(action, args) {
    try {
      await this.page.call(action, args);
    } catch (error) {
      this.page.toast(error.message);
    }
  }

  showDownloads(items) {
    this.none.hidden = items.length > 0;
    const ids = new Set(items.map((item) => item.id));
    for (const [id, row] of this.rows) {
      if (ids.has(id)) continue;
      row.element.remove();
      this.rows.delete(id);
    }
    for (const item of items) this.showDownload(item);
    const running = items.filter((item) => ["waiting", "running"].includes(item.state));
    const active = new Set(running.map((item) => item.id));
    if ([...active].join() !== [...this.active].join()) {
      this.active = active;
      this.showCatalogue(this.targets);
    }
  }

  showDownload(item) {
    const row = this.rows.get(item.id) ?? this.addRow(item);
    const part = item.total ? Math.min(1, item.bytes / item.total) : 0;
    const total = item.total ? ` of ${bytes(item.total)}` : "";
    const parts = [`${bytes(item.bytes)}${total}`];
    if (item.state === "running") {
      if (item.bytes_per_second) parts.push(`${bytes(item.bytes_per_second)}/s`);
      if (item.seconds_left !== null) parts.push(`${seconds(item.seconds_left)} left`);
    } else parts.push(STATES[item.state]);
    if (item.message && item.message !== STATES[item.state]) parts.push(item.message);
    setText(row.text, parts.join(" · "));
    row.element.dataset.state = item.state;
    row.meter.style.width = `${(100 * (item.state === "done" ? 1 : part)).toFixed(1)}%`;
    if (row.state !== item.state) {
      row.state = item.state;
      row.buttons.replaceChildren(...this.buttonsFor(item));
    }
  }

  addRow(item) {
    const text = h("small");
    const meter = h("i");
    const buttons = h("span", { class: "row-buttons" });
    const name = h("span", { class: "row-text" }, h("b", {}, item.name), text);
    const bar = h("div", { class: "meter" }, meter);
    const element = h("li", { "data-download": item.id }, name, buttons, bar);
    this.downloads.append(element);
    const row = { element, text, meter, buttons, state: null };
    this.rows.set(item.id, row);
    return row;
  }

  buttonsFor({ id, state }) {
    const step = (label, name) =>
      this.button(label, () => this.tell("download", { id, step: name }));
    if (state === "running" || state === "waiting") return [step("Cancel", "cancel")];
    if (state === "done") return [step("Dismiss", "dismiss")];
    return [step("Retry", "retry"), step("Dismiss", "dismiss")];
  }

  button(label, onclick) {
    return h("button", { type: "button", class: "button", onclick: once(onclick) }, label);
  }
}
