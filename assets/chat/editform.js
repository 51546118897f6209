/* The form that stands where a message was while it is edited. */

import { h } from "../shared/dom.js";
import { once } from "../shared/requests.js";

const MOST_ROWS = 12;

/**
 * label, hint, submit: words. send(text) resolves to true when the text was taken; closed() is called
 * when the form is gone. kept: get() and set(text) of what is typed, over a reload of the page.
 */
export function editForm(text, { label, hint, submit, send, closed, kept }) {
  const box = h("textarea", { class: "edit-box", "aria-label": label });
  box.value = kept?.get() || text;
  box.rows = Math.min(MOST_ROWS, box.value.split("\n").length + 1);
  const close = () => {
    form.remove();
    kept?.set("");
    closed();
  };
  const go = once(async () => {
    box.readOnly = true;
    const taken = await send(box.value);
    box.readOnly = false;
    if (taken) close();
  });
  const cancel = h("button", { type: "button", class: "button", onclick: close }, "Cancel");
  const submitButton = h("button", { type: "submit", class: "button primary" }, submit);
  const buttons = h("div", {}, cancel, submitButton);
  const form = h(
    "form",
    { class: "edit-form" },
    box,
    h("p", { class: "edit-hint" }, hint),
    buttons,
  );
  form.addEventListener("submit", (event) => (event.preventDefault(), go()));
  box.addEventListener("input", () => kept?.set(box.value));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      go();
    }
  });
  return { form, box };
}
