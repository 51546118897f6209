/* How replies are shown: the switches, the key of colours and the theme. */

import { h } from "../shared/dom.js";
import { onNames } from "../shared/names.js";
import { colourMarks, Legend } from "./legend.js";

const THEMES = ["system", "light", "dark"];

export class ViewBar {
  /** page: { changed(changes), viewChanged(view) } */
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.key = root.querySelector("#key");
    this.ghosts = root.querySelector("#ghosts");
    this.theme = root.querySelector("#theme");
    this.drafters = [];
    for (const group of root.querySelectorAll("[data-switch]")) this.listenTo(group);
    this.ghosts.addEventListener("click", () => this.change({ ghosts: !this.view.ghosts }));
    this.theme.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(this.view.theme) + 1) % THEMES.length];
      this.change({ theme: next });
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.applyTheme());
    this.legend = new Legend(root, () => ({ view: this.view, drafters: this.drafters }));
    onNames(() => {
      if (this.view) this.drawKey();
    });
  }

  listenTo(group) {
    const buttons = [...group.querySelectorAll("[role=radio]")];
    const choose = (button) => this.change({ [group.dataset.switch]: button.dataset.value });
    group.addEventListener("click", (event) => {
      const button = event.target.closest("[role=radio]");
      if (button) choose(button);
    });
    group.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const now = buttons.indexOf(document.activeElement);
      const next = buttons[(now + step + buttons.length) % buttons.length];
      next.focus();
      choose(next);
    });
  }

  change(changes) {
    this.show({ ...this.view, ...changes });
    this.page.changed(changes);
  }

  show(view) {
    this.view = view;
    this.root.dataset.view = view.view;
    this.root.dataset.colour = view.colour;
    this.root.dataset.ghosts = String(view.ghosts);
    for (const group of this.root.querySelectorAll("[data-switch]")) {
      for (const button of group.querySelectorAll("[role=radio]")) {
        const chosen = view[group.dataset.switch] === button.dataset.value;
        button.setAttribute("aria-checked", String(chosen));
        button.tabIndex = chosen ? 0 : -1;
      }
    }
    this.ghosts.setAttribute("aria-checked", String(view.ghosts));
    this.applyTheme();
    this.drawKey();
    this.page.viewChanged(view.view);
  }

  applyTheme() {
    const { theme } = this.view;
    const dark =
      theme === "dark" ||
      (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.body.classList.toggle("dark", dark);
    this.theme.title = `Theme: ${theme}`;
    this.theme.setAttribute("aria-label", this.theme.title);
  }

  setDrafters(drafters) {
    this.drafters = drafters;
    this.drawKey();
  }

  drawKey() {
    const marks = colourMarks(this.view, this.drafters);
    const items = marks.map(([name, style]) => h("span", { class: `key-item ${style}` }, name));
    this.key.replaceChildren(...items);
  }
}
