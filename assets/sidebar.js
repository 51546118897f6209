/* The list of conversations: open, search, rename, delete with undo. */

import { h, iconButton, setText } from "./dom.js";

const SEARCH_PAUSE = 150;

export class Sidebar {
  /** page: { call, toast, open, current } */
  constructor(root, page) {
    this.page = page;
    this.list = root.querySelector("#conversation-list");
    this.empty = root.querySelector("#conversation-empty");
    this.search = root.querySelector("#conversation-search");
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(), SEARCH_PAUSE);
    });
  }

  async find() {
    const text = this.search.value.trim();
    this.draw(await this.page.call("search", { text }));
  }

  /** The list has changed on the server. */
  changed(items) {
    if (this.search.value.trim()) this.find();
    else this.draw(items);
  }

  draw(items) {
    this.items = items;
    this.list.replaceChildren(...items.map((item) => this.row(item)));
    this.empty.hidden = items.length > 0;
    const searching = this.search.value.trim();
    setText(
      this.empty,
      searching ? "No conversation contains this." : "Your conversations will be listed here.",
    );
  }

  /** Another conversation is the current one. */
  redraw() {
    this.draw(this.items);
  }

  row(item) {
    const current = item.id === this.page.current();
    const open = h(
      "button",
      {
        type: "button",
        class: "conversation",
        title: item.title,
        "aria-current": current ? "true" : null,
        onclick: () => this.page.open(item.id),
      },
      item.title,
    );
    const row = h("li", { "data-id": item.id }, open);
    row.append(
      iconButton("edit", `Rename ${item.title}`, () => this.rename(row, item)),
      iconButton("trash", `Delete ${item.title}`, () => this.remove(item)),
    );
    return row;
  }

  rename(row, item) {
    const box = h("input", { type: "text", class: "rename", "aria-label": "New title" });
    box.value = item.title;
    let done = false;
    const finish = async (save) => {
      if (done) return;
      done = true;
      const title = box.value.trim();
      let shown = item.title;
      try {
        if (save && title && title !== item.title) {
          await this.page.call("rename", { conversation: item.id, title });
          shown = title;
        }
      } finally {
        row.replaceWith(this.row({ ...item, title: shown }));
      }
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") finish(true);
      if (event.key === "Escape") finish(false);
      event.stopPropagation();
    });
    box.addEventListener("blur", () => finish(true));
    row.replaceChildren(box);
    box.select();
  }

  async remove(item) {
    await this.page.call("delete", { conversation: item.id });
    const shown = this.page.current() === item.id;
    if (shown) this.page.open(null);
    const undo = async () => {
      await this.page.call("restore", { conversation: item.id });
      if (shown) this.page.open(item.id);
    };
    this.page.toast(`Deleted “${item.title}”`, { label: "Undo", run: undo });
  }
}
