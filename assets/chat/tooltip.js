/* One tooltip for all tokens: by pointer, by tap, and by arrow keys inside a reply. */

import { h } from "../shared/dom.js";
import { probability, visible } from "../shared/format.js";
import { nameOf } from "../shared/names.js";
import {
  branches,
  branchOf,
  DEPTH,
  DRAFT_Q,
  DRAFTER,
  isGiven,
  KIND,
  REJECTED,
  TARGET_P,
  TEXT,
} from "../shared/wire.js";
import { GIVEN, KINDS, REJECTED_MEANING, UNRECORDED } from "./words.js";

const GAP = 8;
const PART = "(part of a character)";

export class Tooltip {
  /** tokenOf(element): { token, drafters, rejected } of a token or ghost element, or null.
      thread: shows where a token was copied from, and says it. */
  constructor(tip, area, tokenOf, thread = null) {
    this.thread = thread;
    this.tip = tip;
    this.area = area;
    this.tokenOf = tokenOf;
    this.active = null;
    area.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "touch") this.showFor(event.target);
    });
    area.addEventListener("pointerleave", () => this.hide());
    area.addEventListener("click", (event) => this.showFor(event.target));
    area.addEventListener("keydown", (event) => this.onKey(event));
    area.addEventListener("focusout", () => this.hide());
    area.addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  /** The scrolling that brought a token into view may be told of after its tooltip has come. */
  scrolled() {
    if (this.area.scrollTop !== this.shownAt) this.hide();
  }

  showFor(target) {
    const element = target.closest?.(".token, .ghost");
    if (element) this.show(element);
    else this.hide();
  }

  show(element) {
    const found = this.tokenOf(element);
    if (!found) return;
    this.mark(element);
    this.thread?.clear();
    const copied = found.rejected ? null : this.thread?.show(found);
    this.tip.replaceChildren(...describe({ ...found, copied }));
    this.tip.hidden = false;
    this.shownAt = this.area.scrollTop;
    this.place(element.getClientRects()[0] ?? element.getBoundingClientRect());
  }

  place(box) {
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const left = Math.max(GAP, Math.min(innerWidth - width - GAP, box.left));
    const below = box.bottom + GAP;
    const top = below + height > innerHeight ? box.top - height - GAP : below;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  hide() {
    this.mark(null);
    this.thread?.clear();
    this.tip.hidden = true;
  }

  mark(element) {
    this.active?.classList.remove("active");
    this.active?.removeAttribute("aria-describedby");
    this.active = element;
    element?.classList.add("active");
  }

  /** Left and right walk through the tokens of the reply that has the focus. */
  onKey(event) {
    const body = event.target.closest?.(".reply-body");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.hide();
    if (event.altKey || event.ctrlKey || event.metaKey) return; // other keys than the arrows alone
    if (!body || !step || event.target !== body) return;
    event.preventDefault();
    const tokens = [...body.querySelectorAll(".token")];
    const from = tokens.indexOf(this.active);
    const next = tokens[from < 0 ? (step > 0 ? 0 : tokens.length - 1) : from + step];
    if (!next) return;
    next.scrollIntoView({ block: "nearest" });
    this.show(next);
    body.setAttribute("aria-description", this.tip.innerText);
  }
}

/** What a token or a rejected draft (text, drafter, p, q, depth) tells of itself.

   number: of the rejected draft among those of its token. */
function factsOf(token, rejected, number) {
  if (rejected) {
    const [text, drafter, p, q, depth] = rejected;
    return {
      kind: "ghost",
      word: "rejected",
      unseen: PART,
      meaning: REJECTED_MEANING,
      text,
      drafter,
      p,
      q,
      depth,
      branch: branchOf(token[REJECTED], number),
    };
  }
  const { name, meaning, unseen = PART } = wordsOf(token);
  return {
    kind: token[KIND],
    word: name,
    meaning,
    unseen,
    text: token[TEXT],
    drafter: token[DRAFTER],
    p: token[TARGET_P],
    q: token[DRAFT_Q],
    depth: token[DEPTH],
    tried: token[REJECTED],
  };
}

function wordsOf(token) {
  if (isGiven(token)) return GIVEN;
  return token[KIND] === "p" && token[TARGET_P] === null ? UNRECORDED : KINDS[token[KIND]];
}

const pathText = (path) => path.map((one) => visible(one[TEXT])).join("");

function describe({ token, drafters, rejected, number, copied }) {
  const facts = factsOf(token, rejected, number);
  const rows = copied ? [["copied from", copied]] : [];
  rows.push(["p (target)", probability(facts.p)]);
  if (facts.drafter !== null) {
    rows.push(["q (drafter)", facts.q === null ? "point mass" : probability(facts.q)]);
    rows.push(["drafter", nameOf(drafters[facts.drafter] ?? "")], ["draft position", facts.depth]);
  }
  if (facts.branch?.length > 1) rows.push(["branch", pathText(facts.branch)]);
  if (facts.tried) rows.push(["rejected here", branches(facts.tried).map(pathText).join("  |  ")]);
  const list = h("dl");
  for (const [name, value] of rows) list.append(h("dt", {}, name), h("dd", {}, String(value)));
  const text = visible(facts.text) || facts.unseen;
  const word = h("span", { class: `mark ${facts.kind}` }, facts.word);
  const meaning = h("p", { class: "tip-meaning" }, facts.meaning);
  const asks = facts.tried ? h("p", { class: "tip-asks" }, "Click: what it almost said") : null;
  const parts = [h("div", { class: "tip-head" }, h("code", {}, text), word), meaning, list, asks];
  return parts.filter((part) => part);
}
