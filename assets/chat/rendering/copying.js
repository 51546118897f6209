/* What a selection copies: a formula as it was written. */

import { h } from "../../shared/dom.js";

/** Takes over copying if a formula is in the selection. */
export function copyFormulas(event) {
  const selection = getSelection();
  if (!selection.rangeCount) return;
  const part = selection.getRangeAt(0).cloneContents();
  const formulas = part.querySelectorAll(".formula");
  if (!formulas.length) return;
  for (const formula of formulas) {
    const source = formula.querySelector(".formula-source")?.textContent ?? "";
    formula.replaceWith(formula.matches(".display") ? h("pre", {}, source) : source);
  }
  for (const button of part.querySelectorAll("button")) button.remove();
  // Only what is laid out knows where its lines end.
  const place = h("div", { class: "copied-part", "aria-hidden": "true" }, part);
  document.body.append(place);
  event.clipboardData.setData("text/plain", place.innerText.trim());
  place.remove();
  event.preventDefault();
}
