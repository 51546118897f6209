/* The list of conversations: open, search, show more, rename, delete with undo. */

import { h, iconButton, setText } from "../shared/dom.js";
import { Latest, once } from "../shared/requests.js";

const SEARCH_PAUSE = 150;
const PAGE = 200;

export class Sidebar {
  /** page: { call, toast, open, current } */
  constructor(root, page) {
    this.page = page;
    this.items = [];
    this.limit = PAGE;
    this.requests = new Latest();
    this.renaming = false;
    this.list = root.querySelector("#conversation-list");
    this.empty = root.querySelector("#conversation-empty");
    this.search = root.querySelector("#conversation-search");
    this.more = root.querySelector("#conversation-more");
    this.more.addEventListener("click", () => {
      this.limit += PAGE;
      this.find();
    });
    this.search.addEventListener("input", () => {
      this.setStale(true);
      this.limit = PAGE;
      this.requests.begin(); // what is on its way answers an older text
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(), SEARCH_PAUSE);
    });
  }

  async find() {
    clearTimeout(this.timer);
    const isLatest = this.requests.begin();
    this.setStale(true);
    const args = { text: this.search.value.trim(), limit: this.limit };
    try {
      const found = await this.page.call("search", args);
      if (isLatest()) this.draw(found);
    } catch {
      if (isLatest()) this.setStale(false); // a toast has told it by then
    }
  }

  /** The list has changed on the server: it sends the beginning of the whole. */
  changed(found) {
    if (this.search.value.trim() || this.limit > PAGE) {
      this.find();
      return;
    }
    this.requests.begin();
    this.draw(found);
  }

  /** While a list is out of date nothing in it can be pressed. */
  setStale(stale) {
    this.list.inert = stale && !this.renaming;
    this.more.disabled = stale;
    this.list.classList.toggle("stale", stale);
  }

  draw({ items, more }) {
    this.items = items;
    this.more.hidden = !more;
    this.setStale(false);
    if (!this.renaming) this.drawRows();
  }

  drawRows() {
    this.list.replaceChildren(...this.items.map((item) => this.row(item)));
    this.empty.hidden = this.items.length > 0;
    const searching = this.search.value.trim();
    setText(
      this.empty,
      searching ? "No conversation contains this." : "Your conversations will be listed here.",
    );
  }

  /** Another conversation is the current one. */
  markCurrent() {
    for (const row of this.list.children) {
      const isCurrent = row.dataset.id === String(this.page.current());
      const button = row.querySelector(".conversation");
      if (isCurrent) button?.setAttribute("aria-current", "true");
      else button?.removeAttribute("aria-current");
    }
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
      iconButton(
        "trash",
        `Delete ${item.title}`,
        once(() => this.remove(item)),
      ),
    );
    return row;
  }

  /** The list stands still while a title is typed: what came meanwhile is drawn afterwards. */
  rename(row, item) {
    const box = h("input", { type: "text", class: "rename", "aria-label": "New title" });
    box.value = item.title;
    this.renaming = true;
    const finish = once(async (save) => {
      const title = box.value.trim();
      box.readOnly = true;
      try {
        if (save && title && title !== item.title) {
          await this.page.call("rename", { conversation: item.id, title });
          this.items = this.items.map((one) => (one.id === item.id ? { ...one, title } : one));
        }
      } catch {
        // a toast has told it by then: the old title is shown again
      } finally {
        this.renaming = false;
        this.drawRows();
      }
    });
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
    try {
      await this.page.call("delete", { conversation: item.id });
    } catch {
      return; // a toast has told it by then
    }
    const shown = this.page.current() === item.id;
    if (shown) this.page.open(null);
    const undo = async () => {
      await this.page.call("restore", { conversation: item.id });
      if (shown && this.page.current() === null) this.page.open(item.id);
    };
    this.page.toast(`Deleted “${item.title}”`, { label: "Undo", run: undo });
  }
}
