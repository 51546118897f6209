/* The engine's log, which grows while its dialog is open. */

import { h } from "../shared/dom.js";
import { Latest } from "../shared/requests.js";

const LOOK_EVERY = 1000;

export class Log {
  /** page: { call } */
  constructor(root, page) {
    this.page = page;
    this.readings = new Latest();
    this.dialog = root.querySelector("#log-dialog");
    this.lines = root.querySelector("#log-lines");
  }

  async open() {
    const isLatest = this.readings.begin();
    if (!this.dialog.open) this.dialog.showModal();
    this.lines.replaceChildren();
    let after = 0;
    while (this.dialog.open && isLatest()) {
      const added = await this.page.call("log", { after }).catch(() => []);
      if (!isLatest()) return;
      for (const line of added) {
        this.lines.append(h("span", { class: `level-${line.level}` }, `${line.text.trimEnd()}\n`));
        after = line.number;
      }
      if (!this.lines.firstChild) this.lines.append("The engine has written nothing yet.");
      if (added.length) this.lines.scrollTop = this.lines.scrollHeight;
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY));
    }
  }
}
