/* Fields of the forms: an input, and its label above it. */

import { h } from "./dom.js";

export function labelled(id, label, input, kind = "") {
  const head = h("div", { class: "field-head" }, h("label", { for: id }, label));
  return h("div", { class: `field ${kind}` }, head, input);
}

export function numberInput(id, value, min, max) {
  return h("input", { id, type: "number", value: String(value), min, max, inputmode: "numeric" });
}

/** choices: [value, label] pairs. */
export function select(id, choices) {
  const options = choices.map(([value, label]) => h("option", { value }, label));
  return h("select", { id }, ...options);
}
