/* Keys that do what buttons do: one table, from which the page acts, and from which its sheet and
   the titles of the buttons are written.

   Single keys act outside of fields only, and can be turned off. Ctrl, on a Mac ⌘, goes along with
   what has to work while a message is being written. Browsers and screen readers have a meaning of
   their own for most other combinations. */

import { h } from "../shared/dom.js";

const LAST = ".message.reply:last-child";

/** key: as events tell it. held: with Ctrl or ⌘. button: what is pressed. field: what is focused. */
export const SHORTCUTS = [
  { key: "n", label: "New chat", button: "#new-chat" },
  { key: "s", label: "Search the chats", field: "#conversation-search", drawer: "sidebar" },
  { key: "m", label: "Write a message", field: "#message-box" },
  { key: ".", held: true, label: "Stop the reply", button: "#stop" },
  { key: "r", label: "Write the last reply again", button: `${LAST} [data-does="regenerate"]` },
  { key: "c", label: "Copy the last reply", button: `${LAST} [data-does="copy"]` },
  { key: "v", label: "Show text or tokens", group: "view" },
  { key: "o", label: "Change what colours tell", group: "colour" },
  { key: "d", label: "Show or hide rejected drafts", button: "#ghosts" },
  { key: "?", label: "Show these keys", button: "#open-shortcuts" },
];

/** Keys with a meaning in one place, told in the sheet; they are heard there. */
const ELSEWHERE = [
  ["Enter", "Send the message"],
  ["Shift+Enter", "Start a new line in it"],
  ["Esc", "Close what is open, else stop the reply, else leave the message box"],
  ["← →", "In a reply: walk through its tokens"],
];

const FIELDS =
  "input:not([type=checkbox], [type=radio], [type=file]), textarea, select, [contenteditable], " +
  "[role=combobox], [role=listbox], [role=menu]";
const OFF = "off";

export class Shortcuts {
  /** page: { openDrawer(name) }. kept: where it is kept whether single keys act, as Kept. */
  constructor(root, page, kept, platform = navigator.platform) {
    this.root = root;
    this.page = page;
    this.kept = kept;
    this.held = /mac|iphone|ipad/i.test(platform) ? "⌘" : "Ctrl";
    this.dialog = root.querySelector("#shortcuts-dialog");
    this.drawSheet(root.querySelector("#shortcuts-body"));
    root.querySelector("#open-shortcuts").addEventListener("click", () => this.dialog.showModal());
    document.addEventListener("keydown", (event) => this.onKey(event));
    for (const look of ["pointerover", "focusin"]) {
      root.addEventListener(look, ({ target }) => this.entitle(target));
    }
    for (const { button } of SHORTCUTS) this.entitle(button && root.querySelector(button));
  }

  get areOn() {
    return this.kept.get() !== OFF;
  }

  onKey(event) {
    if (event.defaultPrevented || event.altKey || this.root.querySelector("dialog[open]")) return;
    const shortcut = SHORTCUTS.find((one) => this.isFor(one, event));
    if (!shortcut) return;
    event.preventDefault();
    if (!event.repeat) this.run(shortcut);
  }

  isFor({ key, held = false }, event) {
    const isHeld = this.held === "⌘" ? event.metaKey : event.ctrlKey;
    if (event.key.toLowerCase() !== key || held !== (event.metaKey || event.ctrlKey)) return false;
    return held ? isHeld : this.areOn && !event.target.closest?.(FIELDS);
  }

  run({ button, field, drawer, group }) {
    if (drawer) this.page.openDrawer(drawer);
    if (field) this.root.querySelector(field).focus();
    if (group) next(this.root.querySelectorAll(`[data-switch="${group}"] [role="radio"]`)).click();
    const found = button && this.root.querySelector(button);
    if (found && !found.hidden && !found.disabled && !found.closest("[inert]")) found.click();
  }

  /** A button tells its key when one points at it or comes to it. */
  entitle(element) {
    const shortcut = SHORTCUTS.find(({ button }) => button && element?.closest?.(button));
    if (!shortcut || (!shortcut.held && !this.areOn)) return;
    const button = element.closest(shortcut.button);
    const name = button.title || button.textContent.trim();
    const keys = ` (${this.keysOf(shortcut)})`;
    if (!name.endsWith(keys)) button.title = name + keys;
  }

  keysOf({ key, held }) {
    return held ? `${this.held}+${key}` : key.toUpperCase();
  }

  drawSheet(body) {
    const rows = [...SHORTCUTS.map((one) => [this.keysOf(one), one.label]), ...ELSEWHERE].map(
      ([keys, label]) => h("tr", {}, h("th", { scope: "row" }, ...kbds(keys)), h("td", {}, label)),
    );
    const box = h("input", { type: "checkbox", checked: this.areOn });
    box.addEventListener("change", () => this.turn(box.checked));
    body.append(
      h("table", { class: "shortcuts" }, h("tbody", {}, ...rows)),
      h("label", { class: "check" }, box, "Single letters act outside of text fields"),
    );
  }

  turn(on) {
    this.kept.set(on ? "on" : OFF);
    for (const { button, held } of SHORTCUTS) {
      const found = !held && button ? this.root.querySelectorAll(button) : [];
      for (const one of found) one.title = one.title.replace(/ \([^()]+\)$/, "");
    }
  }
}

function next(radios) {
  const all = [...radios];
  const now = all.findIndex((radio) => radio.ariaChecked === "true");
  return all[(now + 1) % all.length];
}

/** "Shift+Enter" as two keys with a plus between, "← →" as two keys. */
const kbds = (keys) =>
  keys.split(/(?<=.)([+ ])/).map((key) => (/^[+ ]$/.test(key) ? key : h("kbd", {}, key)));
