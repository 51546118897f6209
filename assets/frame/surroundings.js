/* What surrounds the work: drawers, dialogs, toasts, and the line that says we are cut off.

   frame/ is what stands around the parts of the page: list of chats, settings, log, welcome. It
   knows nothing of tokens, drafters or measurements. */

import { Drawers } from "./drawers.js";
import { h, setText } from "../shared/dom.js";

const TOAST_TIME = 6000;
const CHOICE_TIME = 20000; // to read it, find its button and press it, by whatever means

export class Surroundings {
  constructor(root) {
    this.root = root;
    this.toasts = root.querySelector("#toasts");
    this.offline = root.querySelector("#offline");
    this.drawers = new Drawers(root);
    root.addEventListener("click", (event) => this.onClick(event));
  }

  onClick(event) {
    // A click on the backdrop hits the dialog itself.
    if (event.target.tagName === "DIALOG") event.target.close();
  }

  openDrawer(name) {
    this.drawers.open(name);
  }

  closeDrawers() {
    return this.drawers.close();
  }

  toast(text, action = null, time = action ? CHOICE_TIME : TOAST_TIME) {
    const toast = h("div", { class: "toast" }, h("span", {}, text));
    const close = () => toast.remove();
    if (action) {
      const run = () => (close(), action.run());
      toast.append(h("button", { type: "button", class: "button", onclick: run }, action.label));
    }
    this.toasts.append(toast);
    let timer = setTimeout(close, time);
    for (const begun of ["pointerenter", "focusin"]) {
      toast.addEventListener(begun, () => clearTimeout(timer));
    }
    for (const over of ["pointerleave", "focusout"]) {
      toast.addEventListener(over, () => (timer = setTimeout(close, TOAST_TIME / 2)));
    }
  }

  /** A yes or no question; resolves to true or false. */
  ask({ title, text, yes }) {
    const dialog = this.root.querySelector("#ask-dialog");
    if (dialog.open) return Promise.resolve(false); // one question at a time
    const [go, no] = [dialog.querySelector("#ask-yes"), dialog.querySelector("#ask-no")];
    setText(dialog.querySelector("#ask-title"), title);
    setText(dialog.querySelector("#ask-text"), text);
    setText(go, yes);
    dialog.showModal();
    return new Promise((resolve) => {
      dialog.returnValue = "";
      go.onclick = () => dialog.close("yes");
      no.onclick = () => dialog.close("");
      dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    });
  }

  showOnline(online) {
    this.offline.hidden = online;
    setText(
      this.offline,
      online ? "" : "Forerun does not answer. Start it again: this page goes on by itself.",
    );
  }
}
