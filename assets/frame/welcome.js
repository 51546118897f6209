/* What stands where a conversation will be. */

import { h } from "../shared/dom.js";

/** engine: what is loaded or being loaded. open: shows the models there are. */
export function welcomeParts({ loaded, progress }, open) {
  if (loaded) {
    const text = "Every token of the reply shows who proposed it and what the target made of it.";
    return [h("h1", {}, "What shall we write?"), h("p", {}, text)];
  }
  const title = h("h1", {}, "Watch a model think ahead");
  if (progress) return [title, h("p", {}, "The model is being loaded.")];
  return [
    title,
    h("p", {}, "Choose a target above and press Load, or download a model first."),
    h("button", { type: "button", class: "button primary", onclick: open }, "Choose a model"),
  ];
}
