/* A dropdown whose rows may be greyed with their reason: one choice or several in order.

   The pattern is the button with a popup listbox and a filter field (combobox). Greyed rows can
   be reached, so that their reason is read out; they cannot be chosen. */

import { h, icon, setText } from "../shared/dom.js";

let identities = 0;

export class Combobox {
  /** settings: { label, placeholder, multiple, onChange(values), onAction(action), foot }

     foot: an element to stand below the list, if any. */
  constructor(root, settings) {
    this.settings = settings;
    this.options = [];
    this.values = [];
    this.active = -1;
    this.stale = false;
    this.id = `box-${(identities += 1)}`;
    this.build(root);
  }

  build(root) {
    const { label, multiple } = this.settings;
    const list = `${this.id}-list`;
    this.caption = h("span", { class: "box-value", id: `${this.id}-value` });
    this.button = h(
      "button",
      {
        type: "button",
        class: "box-button",
        "aria-haspopup": "listbox",
        "aria-expanded": "false",
        "aria-labelledby": `${this.id}-label ${this.id}-value`,
        onclick: () => this.toggle(),
      },
      h("span", { class: "box-label", id: `${this.id}-label` }, label),
      this.caption,
      icon("chevron"),
    );
    this.filter = h("input", {
      type: "text",
      class: "box-filter",
      role: "combobox",
      placeholder: "Filter",
      autocomplete: "off",
      spellcheck: "false",
      "aria-label": `Filter ${label.toLowerCase()}`,
      "aria-controls": list,
      "aria-expanded": "true",
      "aria-autocomplete": "list",
    });
    this.list = h("ul", { class: "box-list", role: "listbox", id: list, "aria-label": label });
    if (multiple) this.list.setAttribute("aria-multiselectable", "true");
    this.hint = h("p", { class: "box-hint" });
    this.popup = h("div", { class: "box-popup", hidden: true }, this.filter, this.list, this.hint);
    if (this.settings.foot) this.popup.append(this.settings.foot);
    root.append(this.button, this.popup);
    this.root = root;
    this.listen();
  }

  listen() {
    this.filter.addEventListener("input", () => this.draw());
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.pick(Number(row.dataset.index));
    });
    this.root.addEventListener("focusout", (event) => {
      if (!this.root.contains(event.relatedTarget)) this.close();
    });
  }

  /** The list is of something else until it is told anew: it stays shut meanwhile. */
  setStale(stale) {
    this.stale = stale;
    if (stale) this.close(this.popup.contains(document.activeElement));
    this.root.classList.toggle("stale", stale);
    this.button.setAttribute("aria-disabled", String(stale));
    this.button.setAttribute("aria-busy", String(stale));
  }

  setOptions(options) {
    this.options = options;
    this.drawCaption();
    if (!this.popup.hidden) this.draw();
  }

  setValues(values) {
    this.values = values;
    this.drawCaption();
    if (!this.popup.hidden) this.draw();
  }

  labelOf(value) {
    return this.options.find((option) => option.value === value)?.label ?? value;
  }

  drawCaption() {
    const text = this.values.map((value) => this.labelOf(value)).join(", ");
    setText(this.caption, text || this.settings.placeholder);
    this.caption.title = text;
    this.caption.classList.toggle("unset", !text);
  }

  toggle() {
    if (this.popup.hidden) this.open();
    else this.close(true);
  }

  open() {
    if (this.stale) return;
    this.popup.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.filter.value = "";
    this.draw();
    const chosen = this.shown.findIndex((option) => this.values.includes(option.value));
    this.setActive(Math.max(0, chosen));
    this.filter.focus();
  }

  close(refocus = false) {
    if (this.popup.hidden) return;
    this.popup.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    if (refocus) this.button.focus();
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    const matches = (option) => `${option.label} ${option.value}`.toLowerCase().includes(wanted);
    this.shown = this.options.filter(matches);
    const scrolled = this.list.scrollTop;
    const rows = [];
    let group = null;
    this.shown.forEach((option, index) => {
      if (option.group !== group) {
        group = option.group;
        rows.push(h("li", { class: "box-group", role: "presentation" }, group));
      }
      rows.push(this.row(option, index));
    });
    if (!this.shown.length) {
      const text = this.options.length ? "Nothing matches." : "Looking at the models…";
      rows.push(h("li", { class: "box-group", role: "presentation" }, text));
    }
    this.list.replaceChildren(...rows);
    this.list.scrollTop = scrolled;
    setText(this.hint, this.hintText());
    this.setActive(Math.min(this.active, this.shown.length - 1));
  }

  hintText() {
    if (!this.settings.multiple) return "";
    return this.values.length > 1
      ? "How several work together, in this order: Settings, Several drafters."
      : "Choose one or more; none means plain decoding.";
  }

  row(option, index) {
    const place = this.values.indexOf(option.value);
    const greyed = option.reason !== null;
    const row = h("li", {
      role: "option",
      class: greyed ? "greyed" : null,
      id: `${this.id}-${index}`,
      "data-index": index,
      "data-value": option.value,
      "aria-selected": String(place >= 0),
      "aria-disabled": greyed ? "true" : null,
    });
    const mark = place < 0 ? "" : this.settings.multiple ? String(place + 1) : "✓";
    const name = h("span", { class: "row-name" }, option.label);
    if (option.suggested) name.append(h("em", {}, "suggested"));
    const text = h("span", { class: "row-text" }, name, h("small", {}, option.detail));
    if (greyed) text.append(h("small", { class: "row-reason" }, capital(option.reason)));
    row.append(h("span", { class: "row-mark" }, mark), text);
    if (option.action) row.append(h("span", { class: "row-action" }, "Download"));
    return row;
  }

  setActive(index) {
    this.active = index;
    const rows = this.list.querySelectorAll("[role=option]");
    rows.forEach((row, number) => row.classList.toggle("active", number === index));
    const row = rows[index];
    if (!row) {
      this.filter.removeAttribute("aria-activedescendant");
      return;
    }
    this.filter.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  }

  onKey(event) {
    if (this.popup.hidden) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        this.open();
      }
      return;
    }
    if (this.settings.foot?.contains(event.target) && event.key !== "Escape") return;
    const last = this.shown.length - 1;
    const moves = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, End: last, Home: 0 };
    if (event.key in moves) {
      event.preventDefault();
      this.setActive(Math.max(0, Math.min(last, moves[event.key])));
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.pick(this.active);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.close(true);
    }
  }

  pick(index) {
    const option = this.shown[index];
    if (!option) return;
    if (option.reason !== null) {
      if (option.action) this.settings.onAction(option.action);
      return;
    }
    if (this.settings.multiple) {
      const chosen = this.values.includes(option.value);
      const others = this.values.filter((value) => value !== option.value);
      this.setValues(chosen ? others : [...others, option.value]);
      this.setActive(index);
    } else {
      this.setValues([option.value]);
      this.close(true);
    }
    this.settings.onChange(this.values);
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
