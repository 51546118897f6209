/* Settings of single drafters, and the controls for them. What stands in the expression of a drafter
   is the server's: here is what was chosen, { value, tree, layers, siblings }. */

import { h } from "../shared/dom.js";

const MOST_NODES = 64;
const UNSET = { tree: 0, layers: "", siblings: false };

const CONTROLS = {
  tree: (value, changed) => {
    const input = h("input", {
      type: "number",
      min: 0,
      max: MOST_NODES,
      step: 1,
      value: value ?? 0,
    });
    input.addEventListener("change", () => {
      const nodes = Math.round(Number(input.value)) || 0;
      input.value = Math.min(MOST_NODES, Math.max(0, nodes));
      changed(Number(input.value));
    });
    return ["Tree, nodes (0: a chain)", input];
  },
  layers: (value, changed) => {
    const input = h("input", { type: "text", value: value ?? "", spellcheck: "false" });
    input.placeholder = "skip=10+13, first=8";
    input.addEventListener("change", () => {
      const text = input.value.replace(/\s/g, "");
      const isGood = text === "" || /^(skip=\d+(\+\d+)*|first=[1-9]\d*)$/.test(text);
      input.toggleAttribute("aria-invalid", !isGood);
      if (isGood) changed(text);
    });
    return ["Layers (empty: the usual ones)", input];
  },
  siblings: (value, changed) => {
    const input = h("input", { type: "checkbox", checked: value === true });
    input.addEventListener("change", () => changed(input.checked));
    return ["Next-best tokens beside its draft (a tree)", input];
  },
};

export class Tuning {
  /** changed(): some setting is another one now */
  constructor(changed) {
    this.changed = changed;
    this.settings = new Map();
    this.element = h("div", { class: "tuning" });
    this.drawn = "";
  }

  /** Take over the settings of chosen drafters; what remains are values of the list. */
  adopt(chosen) {
    for (const { value, ...settings } of chosen) this.settings.set(value, settings);
    this.drawn = "";
    return chosen.map(({ value }) => value);
  }

  /** The other way: always every setting, in one order. */
  chosen(values) {
    return values.map((value) => ({ value, ...UNSET, ...this.settings.get(value) }));
  }

  isSet(value) {
    const [chosen] = this.chosen([value]);
    return Object.entries(UNSET).some(([name, unset]) => chosen[name] !== unset);
  }

  /** The controls of the chosen ones among the options. */
  draw(options, values) {
    const chosen = options.filter(({ value, tuning }) => values.includes(value) && tuning.length);
    const shape = chosen.map(({ value }) => value).join();
    if (this.drawn === shape) return;
    this.drawn = shape;
    this.element.replaceChildren(...chosen.map((option) => this.group(option)));
  }

  group({ value, label, tuning }) {
    const rows = tuning.map((name) => {
      const now = this.settings.get(value)?.[name];
      const [text, control] = CONTROLS[name](now, (next) => this.set(value, name, next));
      control.dataset.tuning = `${value} ${name}`;
      return h("label", {}, h("span", {}, text), control);
    });
    return h("fieldset", {}, h("legend", {}, label), ...rows);
  }

  set(value, name, next) {
    this.settings.set(value, { ...this.settings.get(value), [name]: next });
    this.changed();
  }
}
