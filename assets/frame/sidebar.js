/* The list of conversations: open, search, show more, pin, move, rename, delete with undo. */

import { h, iconButton, setText } from "../shared/dom.js";
import { ClosedFolders, folderButton, groupedRows } from "./folders.js";
import { Latest, once } from "../shared/requests.js";

const SEARCH_PAUSE = 150;
const PAGE = 200;

export class Sidebar {
  /** page: { call, toast, open, current, kept: where closed folders are remembered } */
  constructor(root, page) {
    this.page = page;
    this.items = [];
    this.folders = [];
    this.closed = new ClosedFolders(page.kept);
    this.focusOn = null;
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
    const closed = this.closed.all;
    const args = { text: this.search.value.trim(), limit: this.limit };
    if (closed.length) args.closed = closed;
    try {
      const found = await this.page.call("search", args);
      if (isLatest()) this.draw(found);
    } catch {
      if (isLatest()) this.setStale(false); // a toast has told it by then
    }
  }

  /** The list has changed on the server: it sends the beginning of the whole. */
  changed(found) {
    if (this.search.value.trim() || this.limit > PAGE || this.closed.anyOf(found.folders)) {
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

  draw({ items, more, folders = [] }) {
    this.items = items;
    this.folders = folders;
    this.more.hidden = !more;
    this.setStale(false);
    if (!this.renaming) this.drawRows();
  }

  drawRows() {
    const searching = this.search.value.trim();
    const rows = groupedRows(this, {
      row: (item) => this.row(item),
      closed: this.closed,
      searching: Boolean(searching),
      toggle: (name) => this.toggle(name),
      rename: (row, name) => this.renameFolder(row, name),
    });
    this.list.replaceChildren(...rows);
    this.empty.hidden = rows.length > 0;
    this.focusOn?.()?.focus();
    this.focusOn = null;
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
    const pin = item.pinned ? "Unpin" : "Pin";
    row.append(
      iconButton(
        item.pinned ? "unpin" : "pin",
        `${pin} ${item.title}`,
        once(() => this.change(item, "pin", { pinned: !item.pinned })),
      ),
      iconButton("folder", `Move ${item.title} to a folder`, () => this.move(row, item)),
      iconButton("edit", `Rename ${item.title}`, () => this.rename(row, item)),
      iconButton(
        "trash",
        `Delete ${item.title}`,
        once(() => this.remove(item)),
      ),
    );
    return row;
  }

  /** Chats of a closed folder are not even sent; the list that comes is drawn without them. */
  toggle(name) {
    this.closed.toggle(name);
    this.focusOn = () => folderButton(this.list, name);
    return this.find();
  }

  /** Pin or folder of a chat: the server sends the new list. */
  async change(item, action, args) {
    this.focusOn = () => this.list.querySelector(`[data-id="${item.id}"] .conversation`);
    await this.page.call(action, { conversation: item.id, ...args }).catch(() => {});
  }

  rename(row, item) {
    this.write(row, { label: "New title", value: item.title }, async (title) => {
      if (!title || title === item.title) return;
      await this.page.call("rename", { conversation: item.id, title });
      this.items = this.items.map((one) => (one.id === item.id ? { ...one, title } : one));
    });
  }

  /** Its folder is there from the first chat in it to the last. */
  move(row, item) {
    const options = this.folders.map(({ name }) => h("option", { value: name }));
    const names = h("datalist", { id: "folder-names" }, ...options);
    const told = { label: "Folder: a name, or nothing for none", value: item.folder ?? "", names };
    this.write(row, told, async (folder) => {
      if (folder !== item.folder) await this.change(item, "move", { folder });
    });
  }

  renameFolder(row, name) {
    this.write(row, { label: "New name of the folder", value: name }, async (to) => {
      if (!to || to === name) return;
      this.focusOn = () => folderButton(this.list, to);
      await this.page.call("rename_folder", { folder: name, to });
    });
  }

  /** The list stands still while something is typed: what came meanwhile is drawn afterwards. */
  write(row, { label, value, names = null }, save) {
    const box = h("input", { type: "text", class: "rename", "aria-label": label });
    box.placeholder = label;
    if (names) box.setAttribute("list", names.id);
    box.value = value;
    this.renaming = true;
    const finish = once(async (wanted) => {
      box.readOnly = true;
      try {
        if (wanted) await save(box.value.trim());
      } catch {
        // a toast has told it by then: what was there before is shown again
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
    row.replaceChildren(box, ...(names ? [names] : []));
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
