/* The visible "?" beside a figure: it opens the legend at the word that explains it. */

import { h } from "../shared/dom.js";

export function question(word) {
  const label = `What does “${word}” mean?`;
  const attributes = { type: "button", class: "explain", "data-word": word, title: label };
  return h("button", { ...attributes, "aria-label": label }, "?");
}

/** Questions anywhere in the page open the legend: show(word). */
export function answerQuestions(root, show) {
  root.addEventListener("click", (event) => {
    const asked = event.target.closest(".explain");
    if (asked) show(asked.dataset.word);
  });
}
