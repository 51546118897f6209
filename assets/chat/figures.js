/* The live panel: what the drafts of a reply bring and cost. */

import { h, setText } from "../shared/dom.js";
import { question } from "./explain.js";
import { FEW, count, length, percent, rate, seconds, share } from "../shared/format.js";
import { nameOf, onNames } from "../shared/names.js";

const POSITIONS = 16;
/** The word of the legend that explains a tile. */
const EXPLAINED = {
  speed: "tokens per second",
  acceptance: "acceptance rate",
  length: "mean accepted length",
  tokens: "round",
};

export class Figures {
  constructor(root) {
    this.caption = h("p", { class: "figures-caption" });
    this.empty = h(
      "p",
      { class: "empty-note" },
      "Send a message: while the reply is written, this shows how many drafts the target keeps and what they cost.",
    );
    this.progress = h("div", { class: "prefill" });
    this.body = h("div", { class: "figures-body", hidden: true });
    this.big = {};
    const tiles = h("dl", { class: "tiles" });
    for (const [key, label, title] of [
      ["speed", "tokens/s", "Tokens of the reply over the time since its first round"],
      ["acceptance", "acceptance rate", "Accepted over verified drafts"],
      ["length", "mean accepted length", "Tokens written per pass of the target"],
      ["tokens", "tokens", "Tokens of the reply, and the rounds they took"],
    ]) {
      this.big[key] = h("dd", {}, "–");
      tiles.append(
        h("div", { title }, h("dt", {}, label, question(EXPLAINED[key])), this.big[key]),
      );
    }
    this.positions = h("div", { class: "positions", role: "list" });
    this.shares = h("div", { class: "shares" });
    this.drafters = h("div", { class: "drafters" });
    this.parked = h("p", { class: "parked" });
    this.body.append(
      tiles,
      h("h3", {}, "Acceptance by draft position", question("draft position")),
      this.positions,
      h("h3", {}, "Where the time goes", question("where the time goes")),
      this.shares,
      h("h3", {}, "By drafter", question("drafter")),
      this.drafters,
      this.parked,
    );
    root.append(this.caption, this.progress, this.empty, this.body);
    onNames(() => {
      if (this.stats) this.showDrafters(this.stats);
    });
  }

  clear() {
    this.setProgress(null);
    this.body.hidden = true;
    this.empty.hidden = false;
    setText(this.caption, "");
  }

  /** text and fraction of what comes before the first token; null when it is over. */
  setProgress(text, fraction = 0) {
    if (text === null) {
      this.progress.replaceChildren();
      return;
    }
    const bar = h("div", { class: "meter" }, h("i", { style: `width: ${100 * fraction}%` }));
    this.progress.replaceChildren(h("p", {}, text), bar);
  }

  show(stats, caption) {
    if (!stats) return;
    this.empty.hidden = true;
    this.body.hidden = false;
    setText(this.caption, caption);
    setText(this.big.speed, rate(stats.tokens_per_second));
    setText(this.big.acceptance, share(stats.accepted, stats.proposed));
    setText(this.big.length, length(stats.mean_accepted_length));
    setText(this.big.tokens, count(stats.emitted));
    this.showPositions(stats);
    this.showShares(stats);
    this.stats = stats;
    this.showDrafters(stats);
    const parked = `${count(stats.parked_rounds)} of ${count(stats.rounds)} rounds parked`;
    setText(
      this.parked,
      stats.parked_rounds
        ? `${parked}: no draft, since it would not have paid.`
        : "No rounds parked.",
    );
  }

  showPositions({ proposed_by_position: proposed, accepted_by_position: accepted }) {
    const shown = Math.min(POSITIONS, proposed.length);
    this.positions.setAttribute("role", shown ? "list" : "group"); // a list has items
    while (this.positions.children.length > shown) this.positions.lastChild.remove();
    if (!shown) setText(this.positions, "No drafts so far.");
    else if (!this.positions.firstElementChild) this.positions.replaceChildren();
    for (let index = 0; index < shown; index += 1) {
      const bar = this.positions.children[index] ?? this.addPosition(index + 1);
      const part = proposed[index] ? accepted[index] / proposed[index] : 0;
      bar.title = `Position ${index + 1}: ${accepted[index]} of ${proposed[index]} accepted`;
      bar.setAttribute("aria-label", bar.title);
      bar.querySelector("i").style.height = `${100 * part}%`;
      const tried = proposed[index];
      bar.classList.toggle("few", tried < FEW);
      setText(bar.querySelector("b"), tried < FEW ? tries(tried) : percent(part));
    }
  }

  addPosition(number) {
    const bar = h("div", { class: "position", role: "listitem" });
    bar.append(h("b"), h("span", {}, h("i")), h("small", {}, String(number)));
    this.positions.append(bar);
    return bar;
  }

  showShares(stats) {
    const parts = [
      ["draft", stats.draft_seconds],
      ["target", stats.target_seconds],
      ["other", stats.overhead_seconds],
    ];
    const all = parts.reduce((sum, [, time]) => sum + time, 0);
    const total = all || 1;
    if (!this.shares.firstChild) this.buildShares(parts);
    this.shares.firstChild.hidden = all === 0;
    parts.forEach(([, time], index) => {
      this.shareBars[index].style.flexGrow = Math.max(0.001, time / total);
      setText(this.shareTexts[index], `${percent(time / total)} · ${seconds(time)}`);
    });
  }

  buildShares(parts) {
    this.shareBars = parts.map(([name]) => h("i", { class: `share ${name}` }));
    this.shareTexts = parts.map(() => h("b"));
    const key = parts.map(([name], index) =>
      h("div", {}, h("i", { class: `dot ${name}` }), h("span", {}, name), this.shareTexts[index]),
    );
    this.shares.append(h("div", { class: "share-bar" }, ...this.shareBars), ...key);
  }

  showDrafters({ by_drafter: drafters, members, accepted: kept, reached }) {
    const rows = Object.entries(drafters);
    if (!rows.length) {
      setText(this.drafters, "No drafts so far.");
      return;
    }
    const head = h("tr", {}, h("th", {}, "drafter"), h("th", {}, "accepted"), h("th", {}, "rate"));
    const table = h("table", {}, h("thead", {}, head));
    const body = h("tbody");
    for (const [name, { proposed, accepted }] of rows) {
      const numbers = `${count(accepted)} of ${count(proposed)}`;
      const text = proposed < FEW ? "–" : percent(accepted / proposed);
      body.append(h("tr", {}, h("th", {}, nameOf(name)), h("td", {}, numbers), h("td", {}, text)));
    }
    table.append(body);
    this.drafters.replaceChildren(table, ...(members ? [memberTable(members, kept, reached)] : []));
  }
}

const tries = (number) => `${number} ${number === 1 ? "try" : "tries"}`;

/** What each member of an ensemble would have got kept, used or not, beside the ensemble itself. */
function memberTable(members, kept, reached) {
  const title =
    "Of the places the reply reached: how often the target keeps the member's own token";
  const names = ["member, alone", "kept", "rate"].map((name) => h("th", {}, name));
  const body = h("tbody");
  const rows = Object.entries(members).map(([name, one]) => [nameOf(name), one.agreed, one.asked]);
  for (const [name, agreed, asked] of [...rows, ["together", kept, reached]]) {
    const numbers = `${count(Math.round(agreed))} of ${count(asked)}`;
    const text = asked < FEW ? "–" : percent(agreed / asked);
    body.append(h("tr", {}, h("th", {}, name), h("td", {}, numbers), h("td", {}, text)));
  }
  return h("table", { title }, h("thead", {}, h("tr", {}, ...names)), body);
}
