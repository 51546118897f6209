/* The engine's log, which grows while its dialog is open. */

import { h, setText } from "../shared/dom.js";
import { select } from "../shared/fields.js";
import { Latest } from "../shared/requests.js";

const LOOK_EVERY = 1000;
/** The least level of what is shown, as the engine numbers them. */
const LEVELS = [
  ["0", "everything"],
  ["30", "warnings and errors"],
  ["40", "errors"],
];

export class Log {
  /** page: { call } */
  constructor(root, page) {
    this.page = page;
    this.readings = new Latest();
    this.dialog = root.querySelector("#log-dialog");
    this.lines = root.querySelector("#log-lines");
    this.level = select("log-level", LEVELS);
    this.level.addEventListener("change", () => this.filter());
    const label = h("label", { for: "log-level" }, "Show");
    this.lines.before(h("div", { class: "log-tools" }, label, this.level));
    this.nothing = h("span", { class: "log-nothing" });
  }

  /** Lines of a lower level are hidden, not lost. */
  filter() {
    this.lines.dataset.least = this.level.value;
    const all = [...this.lines.querySelectorAll("[data-level]")];
    const shown = all.some((line) => Number(line.dataset.level) >= Number(this.level.value));
    this.nothing.hidden = shown;
    const none = "The engine has written nothing yet.";
    setText(this.nothing, all.length ? "No line of this level so far." : none);
    this.lines.scrollTop = this.lines.scrollHeight;
  }

  async open() {
    const isLatest = this.readings.begin();
    if (!this.dialog.open) this.dialog.showModal();
    this.lines.replaceChildren(this.nothing);
    let after = 0;
    while (this.dialog.open && isLatest()) {
      const added = await this.page.call("log", { after }).catch(() => []);
      if (!isLatest()) return;
      for (const line of added) {
        const { level } = line;
        const text = `${line.text.trimEnd()}\n`;
        this.lines.append(h("span", { class: `level-${level}`, "data-level": level }, text));
        after = line.number;
      }
      if (added.length || after === 0) this.filter();
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY));
    }
  }
}
