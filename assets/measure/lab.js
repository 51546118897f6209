/* The Lab: which drafter pays on this machine, and a race between two ways to decode.

   measure/ shows what the server measures and computes no figure itself. What is chosen and what is
   set comes from the model bar and the settings that it is given. */

import { h } from "../shared/dom.js";
import { Measure } from "./measure.js";
import { Race } from "./race.js";

export class Lab {
  /** page: { call, attempt, modelBar, settings, lastPrompt() } */
  constructor(root, page) {
    this.page = page;
    this.dialog = root.querySelector("#lab-dialog");
    this.measureBox = h("section", { id: "lab-measure", role: "tabpanel" });
    this.raceBox = h("section", { id: "lab-race", role: "tabpanel", hidden: true });
    root.querySelector("#lab-body").append(this.tabs(), this.measureBox, this.raceBox);
    this.measure = new Measure(this.measureBox, { ...page, close: () => this.dialog.close() });
    this.race = new Race(this.raceBox, page);
    this.choose("measure");
  }

  tabs() {
    const names = { measure: "Measure", race: "Race" };
    this.tabButtons = Object.entries(names).map(([value, label]) =>
      h("button", { type: "button", role: "tab", "data-value": value }, label),
    );
    const list = h("div", { class: "segments", role: "tablist", "aria-label": "Lab" });
    list.append(...this.tabButtons);
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.choose(tab.dataset.value);
    });
    list.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      const other = this.tabButtons.find((tab) => tab.getAttribute("aria-selected") === "false");
      this.choose(other.dataset.value);
      other.focus();
    });
    return list;
  }

  choose(value) {
    for (const tab of this.tabButtons) {
      const chosen = tab.dataset.value === value;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.measureBox.hidden = value !== "measure";
    this.raceBox.hidden = value !== "race";
  }

  async open() {
    this.measure.refresh();
    this.race.open();
    if (!this.dialog.open) this.dialog.showModal();
    await this.page.attempt(() => this.page.modelBar.refresh());
    this.measure.refresh();
  }
}
