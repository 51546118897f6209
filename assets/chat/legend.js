/* The legend: what the colours mean as replies are shown now, and all words of the page. */

import { answerQuestions } from "./explain.js";
import { h } from "../shared/dom.js";
import { nameOf } from "../shared/names.js";
import { LEVELS } from "./levels.js";
import { DRAFTER_SLOTS } from "./painter.js";
import { KINDS, LEGEND } from "./words.js";

const NOW = {
  outcome: "Colours show what became of each token: whether it was drafted, and kept.",
  drafter:
    "Colours show who proposed each token that was kept. Tokens without one are the target’s.",
  predictability: "Colours show how sure the target was of each token.",
  off: "Colours are off. Point at a token, or step to it in the view Tokens, to see what it is.",
};
const HIDDEN_GHOSTS = " Not shown now: switch on “Rejected drafts”.";

/** [name, style] of every colour that may be on the page. */
export function colourMarks({ colour, ghosts }, drafters) {
  const marks = [];
  if (colour === "outcome") {
    for (const { name } of Object.values(KINDS)) marks.push([name, `token ${name}`]);
  } else if (colour === "predictability") {
    for (const { name, label } of LEVELS) marks.push([`${name} (${label})`, `token ${name}`]);
    marks.push(["not known", "token unknown"]);
  } else if (colour === "drafter") {
    drafters.forEach((name, slot) => marks.push([nameOf(name), drafterStyle(slot)]));
    marks.push(["target", "token drafter-none"]);
  }
  if (ghosts) marks.push(["rejected", "key-ghost"]);
  return marks;
}

const drafterStyle = (slot) => `token drafter-${slot % DRAFTER_SLOTS}`;

export class Legend {
  /** state(): { view, drafters } as they are now. */
  constructor(root, state) {
    this.state = state;
    this.dialog = root.querySelector("#legend-dialog");
    this.list = root.querySelector("#legend-list");
    root.querySelector("#open-legend").addEventListener("click", () => this.open());
    answerQuestions(root, (word) => this.open(word));
  }

  /** word: the one to show first, where a question was asked. */
  open(word = null) {
    const { view, drafters } = this.state();
    const rows = LEGEND.flatMap((entry) => wordRow(entry, view));
    this.list.replaceChildren(
      h("div", { class: "now" }, NOW[view.colour] ?? NOW.off),
      ...(view.colour === "drafter" ? drafterRows(drafters) : []),
      ...rows,
    );
    if (!this.dialog.open) this.dialog.showModal();
    this.list.scrollTop = 0;
    if (word) this.mark(word);
  }

  mark(word) {
    const found = [...this.list.querySelectorAll("dt")].find((dt) => dt.textContent === word);
    if (!found) return;
    found.nextElementSibling.classList.add("explained");
    found.scrollIntoView({ block: "center" });
  }
}

function wordRow([word, meaning, kind], { colour, ghosts }) {
  const coloured = kind && kind !== "ghost" && colour === "outcome";
  const style = kind === "ghost" ? "key-ghost" : coloured ? `token ${KINDS[kind].name}` : "";
  const rest = kind === "ghost" && !ghosts ? HIDDEN_GHOSTS : "";
  return [
    h("dt", {}, h("span", { class: `key-item ${style}` }, word)),
    h("dd", {}, meaning + rest),
  ];
}

function drafterRows(drafters) {
  return drafters.flatMap((name, slot) => [
    h("dt", {}, h("span", { class: `key-item ${drafterStyle(slot)}` }, nameOf(name))),
    h("dd", {}, "Proposed by this drafter, and kept by the target."),
  ]);
}
