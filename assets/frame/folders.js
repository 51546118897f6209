/* Groups of the list of chats: pinned ones, folders that open and close, and the others. */

import { h, icon, iconButton } from "../shared/dom.js";

const MARK = "data-group";

/** Which folders are closed, for the next visit too. */
export class ClosedFolders {
  /** kept: where the browser keeps it, or nothing. */
  constructor(kept) {
    this.kept = kept;
    this.names = new Set(namesIn(kept?.get()));
  }

  toggle(name) {
    if (!this.names.delete(name)) this.names.add(name);
    this.kept?.set(JSON.stringify([...this.names]));
  }

  has(name) {
    return this.names.has(name);
  }

  /** Whether one of these folders is closed. */
  anyOf(folders = []) {
    return folders.some(({ name }) => this.names.has(name));
  }

  get all() {
    return [...this.names];
  }
}

function namesIn(text) {
  try {
    const stored = JSON.parse(text ?? "[]");
    return Array.isArray(stored) ? stored.filter((one) => typeof one === "string") : [];
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return []; // not written by this page
  }
}

/**
 * The rows in their groups. found: { items, folders }. page: { row(item), closed, searching,
 * toggle(name), rename(element, name) }
 */
export function groupedRows({ items, folders }, page) {
  const rows = (wanted) => items.filter(wanted).map((item) => page.row(item));
  const pinned = rows((item) => item.pinned);
  const loose = rows((item) => !item.pinned && !item.folder);
  const inFolders = folders.flatMap(({ name, count }) => {
    const inside = rows((item) => !item.pinned && item.folder === name);
    if (page.searching && !inside.length) return [];
    return [folderHead(name, count, page), ...inside];
  });
  const hasGroups = pinned.length || inFolders.length;
  return [
    ...(pinned.length ? [head("Pinned"), ...pinned] : []),
    ...inFolders,
    ...(hasGroups && loose.length ? [head("Chats"), ...loose] : loose),
  ];
}

function head(text) {
  return h("li", { class: "group-head", [MARK]: "" }, h("span", {}, text));
}

function folderHead(name, count, page) {
  const open = page.searching || !page.closed.has(name);
  const button = h(
    "button",
    {
      type: "button",
      class: "folder",
      "aria-expanded": String(open),
      title: name,
      disabled: page.searching,
      onclick: () => page.toggle(name),
    },
    icon("chevron"),
    h("span", { class: "folder-name" }, name),
    h("small", {}, String(count)),
  );
  const row = h("li", { class: "group-head", [MARK]: name }, button);
  row.append(iconButton("edit", `Rename folder ${name}`, () => page.rename(row, name)));
  return row;
}

/** The button of a folder, to focus it after the list was drawn anew. */
export function folderButton(list, name) {
  const heads = [...list.querySelectorAll(`[${MARK}]`)];
  const found = heads.find((one) => one.getAttribute(MARK) === name);
  return found?.querySelector(".folder") ?? null;
}
