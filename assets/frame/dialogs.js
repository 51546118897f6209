/* What all dialogs of the page have: a head with a title, and a button that closes. */

import { h, iconButton } from "../shared/dom.js";

/** Gives its head to each <dialog id="NAME-dialog" data-title="…">. */
export function dressDialogs(root) {
  for (const dialog of root.querySelectorAll("dialog[data-title]")) {
    const id = dialog.id.replace("-dialog", "-title");
    const close = iconButton("close", "Close", () => dialog.close());
    const title = h("h2", { id }, dialog.dataset.title);
    dialog.setAttribute("aria-labelledby", id);
    dialog.prepend(h("div", { class: "dialog-head" }, title, close));
  }
}
