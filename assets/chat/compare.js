/* Versions of a reply side by side: what each says, how it was drafted, how fast it came. */

import { h } from "../shared/dom.js";
import { count, length, rate, share } from "../shared/format.js";
import { nameOf } from "../shared/names.js";
import { FINISHES } from "./words.js";

export class Compare {
  /** call(action, args) asks the server; choose(id) shows a version in the chat. */
  constructor(root, { call, attempt, choose }) {
    this.dialog = root.querySelector("#compare-dialog");
    this.body = root.querySelector("#compare-body");
    Object.assign(this, { call, attempt, choose });
  }

  async open(message) {
    await this.attempt(async () => {
      const { versions } = await this.call("versions", { message });
      this.body.replaceChildren(...versions.map((one, at) => this.column(one, at, message)));
      this.dialog.showModal();
    });
  }

  column({ id, content, details }, at, shown) {
    const title = h("h3", {}, `Version ${at + 1}`);
    const rows = figuresOf(details).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value)),
    );
    const pick = () => {
      this.dialog.close();
      this.choose(id);
    };
    const button = h("button", { type: "button", class: "button", onclick: pick }, "Show this one");
    const text = h("div", { class: "compare-text", dir: "auto", tabindex: "0" }, content);
    const mark = id === shown ? h("span", { class: "compare-mark" }, "shown") : button;
    return h("section", { class: "compare-column" }, title, mark, h("dl", {}, ...rows), text);
  }
}

/** [name, value] pairs; a reply that nobody wrote here has few. */
export function figuresOf({ stats, drafters = [], seed, finish, model }) {
  const rows = [
    ...speedOf(stats ?? {}),
    ["drafter", drafters.map(nameOf).join(" + ")],
    ["model", model],
    ["seed", seed],
    ["end", FINISHES[finish] ?? finish],
  ];
  return rows
    .filter(([, value]) => (value ?? "") !== "")
    .map(([name, value]) => [name, `${value}`]);
}

function speedOf({ rounds, proposed, ...stats }) {
  if (!rounds) return [];
  const speed = stats.tokens_per_second;
  const drafted = [
    ["accepted", proposed && share(stats.accepted, proposed)],
    ["a round", `${length(stats.mean_accepted_length)} tokens`],
  ];
  return [
    ["speed", speed && `${rate(speed)} tokens/s`],
    ["tokens", count(stats.emitted)],
    ...(proposed ? drafted : []),
  ];
}
