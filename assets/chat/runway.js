/* The runway: the draft of the round that was verified last, in one row behind the text.

   The page learns of a draft when it is verified, never before. So the row stages what happened: all
   drafted words stand there in grey, those the target kept turn green, the rest falls away. Rounds
   that come faster than they can be seen are left out; without motion the row shows the outcome. */

import { h } from "../shared/dom.js";
import { visibleInText } from "../shared/format.js";
import { KIND, REJECTED, TEXT } from "../shared/wire.js";

const SHORTEST = 180; // milliseconds that a round stays

/** The drafted words of a round's tokens: { text, fate } with fate kept, fell or target. */
export function staged(tokens) {
  const words = [];
  for (const token of tokens) {
    const kind = token[KIND];
    if (kind !== "a") {
      const fell = longest(token[REJECTED] ?? []);
      words.push(...fell.map(([text]) => ({ text, fate: "fell" })));
      if (kind !== "p") words.push({ text: token[TEXT], fate: "target" });
    } else words.push({ text: token[TEXT], fate: "kept" });
  }
  return words;
}

/** The first branch to its end: of a tree, one row is enough. */
function longest(rejected) {
  const branch = rejected.slice(0, 1);
  for (let at = 1; at < rejected.length && rejected[at][5] === at - 1; at += 1) {
    branch.push(rejected[at]);
  }
  return branch;
}

export class Runway {
  /** now: milliseconds that only grow. */
  constructor(now = () => performance.now()) {
    this.now = now;
    this.element = h("p", { class: "runway", "aria-hidden": "true", hidden: true });
    this.shownAt = -Infinity;
  }

  /** One round; left out while the one before has just begun to show. */
  show(tokens) {
    const now = this.now();
    if (now - this.shownAt < SHORTEST || document.hidden) return;
    const words = staged(tokens);
    if (!words.some(({ fate }) => fate !== "target")) return;
    this.shownAt = now;
    this.element.hidden = false;
    this.element.replaceChildren(
      ...words.map(({ text, fate }) => h("span", { class: fate }, visibleInText(text) || "∅")),
    );
  }

  end() {
    this.element.remove();
  }
}
