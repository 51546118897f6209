/* What a reply almost said: the rejected drafts of one token beside what the target wrote. */

import { h } from "../shared/dom.js";
import { probability, visible } from "../shared/format.js";
import { nameOf } from "../shared/names.js";
import { DRAFTER, REJECTED, TARGET_P, TEXT, branchOf, followers } from "../shared/wire.js";

export class Almost {
  /** actions.branch(message, token, ghost): go on from a rejected draft; absent where nobody can. */
  constructor(dialog, area, { placeOf, branch }) {
    this.dialog = dialog;
    this.body = dialog.querySelector(".dialog-body");
    this.placeOf = placeOf;
    this.branch = branch;
    area.addEventListener("click", (event) => this.openAt(event.target));
    area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.target.matches?.(".reply-body")) return;
      this.openAt(event.target.querySelector(".token.active"));
    });
  }

  /** A selection is no click on a word. */
  openAt(element) {
    const hit = element?.closest?.(".token, .ghost");
    if (!hit || String(getSelection() ?? "")) return;
    const place = this.placeOf(hit);
    if (place?.token[REJECTED]?.length) this.show(place);
  }

  show({ message, wire, token, details, streaming }) {
    const rows = firsts(token[REJECTED]).map((number) =>
      this.candidate(
        token,
        number,
        details,
        () => {
          this.dialog.close();
          this.branch(message, wire, number);
        },
        streaming,
      ),
    );
    const written = h(
      "section",
      { class: "almost-candidate written" },
      head(token[TEXT], "written"),
      bar("p", "the target", token[TARGET_P]),
    );
    this.body.replaceChildren(written, ...rows);
    this.dialog.showModal();
  }

  candidate(token, number, details, go, streaming) {
    const rejected = token[REJECTED][number];
    const [text, drafter, p, q] = rejected;
    const button = h("button", { type: "button", class: "button", onclick: go });
    button.append("Continue from the rejected word");
    const name = nameOf(details.drafters?.[drafter] ?? "") || "the drafter";
    return h(
      "section",
      { class: "almost-candidate" },
      head(text, "rejected"),
      bar("p", "the target", p),
      q === null
        ? h("p", { class: "almost-none" }, `q: ${name} named this one and no other`)
        : bar("q", name, q),
      h("p", { class: "almost-rule" }, ruleOf(token, number, details.verified, details.exact)),
      after(token[REJECTED], number),
      this.branch && !streaming ? button : null,
    );
  }
}

/** The drafts that stood where the token stands: the others follow one of them. */
function firsts(rejected) {
  return rejected.flatMap((_, number) => (branchOf(rejected, number).length === 1 ? [number] : []));
}

function after(rejected, number) {
  const words = followers(rejected, number).map((one) => visible(one[TEXT]));
  return words.length ? h("p", { class: "almost-none" }, `Fell with it: ${words.join("")}`) : null;
}

function head(text, word) {
  const name = visible(text) || "(part of a character)";
  return h("h3", {}, h("code", {}, name), ` ${word}`);
}

function bar(letter, whose, value) {
  const known = Number.isFinite(value);
  const fill = h("span", { class: "almost-fill" });
  fill.style.width = `${known ? Math.max(0, Math.min(1, value)) * 100 : 0}%`;
  return h(
    "div",
    { class: `almost-bar ${letter}` },
    h("span", { class: "almost-name" }, `${letter}, ${whose}`),
    h("span", { class: "almost-track", "aria-hidden": "true" }, fill),
    h("span", { class: "almost-value" }, known ? probability(value) : "not known"),
  );
}

/** How the target came to reject draft `number` of `token`, in one sentence.

    verified: { greedy, coupling, acceptance } of the request; replies stored without it tell less. */
export function ruleOf(token, number, verified, exact) {
  const [, , p] = token[REJECTED][number];
  const chance = probability(p);
  if (exact === false || verified?.acceptance === "typical") {
    return (
      "Typical acceptance keeps words that are likely enough for how sure the target is: " +
      `p = ${chance} was too little, or another draft was kept.`
    );
  }
  if (token[DRAFTER] !== null) {
    return `The target kept another draft in this place; this one had p = ${chance}.`;
  }
  if (verified?.greedy) {
    return "At temperature 0 the target takes its first choice, and that was another.";
  }
  if (p === 0) return "The target gave this word no chance after truncation: p = 0 is never kept.";
  return diceOf(token, number, verified);
}

function diceOf(token, number, verified) {
  const [, , p, q, depth] = token[REJECTED][number];
  if (!verified) {
    return `p = ${probability(p)}; which rule decided is not stored with this reply.`;
  }
  if (verified.coupling === "seed" || q === null) {
    return `Alone, this word is kept with chance p = ${probability(p)}; the dice chose another.`;
  }
  const kept = probability(Math.min(1, p / q));
  if (firsts(token[REJECTED]).length > 1) {
    return (
      `Drafts of one place are tried in turn, the first with chance min(1, p/q), here ${kept}, ` +
      "the others against what is left of p; the dice said no."
    );
  }
  if (depth === 1 && token[REJECTED].length === 1) {
    return `A draft is kept with chance min(1, p/q) = ${kept}; the dice said no.`;
  }
  return (
    `A draft of several words is tested as one block: alone, this word would be kept with ` +
    `chance min(1, p/q) = ${kept}; the test of the block ended before it.`
  );
}
