/* The Lab: which drafter pays on this machine.

   measure/ shows what the server measures and computes no figure itself. What is chosen and what is
   set comes from the model bar and the settings that it is given. */

import { h } from "../shared/dom.js";
import { Measure } from "./measure.js";

export class Lab {
  /** page: { call, attempt, modelBar, settings } */
  constructor(root, page) {
    this.page = page;
    this.dialog = root.querySelector("#lab-dialog");
    const box = h("section", { id: "lab-measure" });
    root.querySelector("#lab-body").append(box);
    this.measure = new Measure(box, { ...page, close: () => this.dialog.close() });
  }

  async open() {
    this.measure.refresh();
    if (!this.dialog.open) this.dialog.showModal();
    await this.page.attempt(() => this.page.modelBar.refresh());
    this.measure.refresh();
  }
}
