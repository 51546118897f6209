/* Measuring in the Lab: what to compare and on which prompts, how far it is, and what to use. */

import { h, setText } from "../shared/dom.js";
import { labelled, numberInput, select } from "../shared/fields.js";
import { seconds, sentence } from "../shared/format.js";
import { Latest, once, tell } from "../shared/requests.js";
import { resultsOf } from "./results.js";

const TOGETHER = "Together, as chosen above.";
const BUSY = new Set(["running", "stopping"]);

export class Measure {
  /** page: { call, attempt, close, modelBar, settings } */
  constructor(root, page) {
    this.page = page;
    this.requests = new Latest();
    this.begin = once(() => this.startChosen());
    this.build(root);
  }

  build(root) {
    this.lead = h("p", { class: "lab-lead" });
    this.ways = h("div", { class: "lab-ways", role: "group", "aria-label": "Drafters" });
    this.source = select("lab-source", [
      ["built-in", "Eight built-in prompts"],
      ["own", "My recent messages"],
      ["pasted", "Pasted below"],
    ]);
    this.pasted = h("textarea", {
      id: "lab-pasted",
      rows: "5",
      placeholder: "One prompt or several, with a blank line between them",
    });
    this.pastedRow = labelled("lab-pasted", "Prompts, pasted", this.pasted, "wide");
    this.count = numberInput("lab-count", 6, 1, 100);
    this.length = numberInput("lab-length", 64, 8, 1024);
    this.start = h("button", { type: "submit", class: "button primary" }, "Measure");
    this.stop = h("button", { type: "button", class: "button", hidden: true }, "Stop");
    this.stop.addEventListener("click", () => this.ask("lab_stop"));
    this.form = h(
      "form",
      { class: "lab-form" },
      h("h3", {}, "Drafters to compare with plain decoding"),
      this.ways,
      labelled("lab-source", "Prompts", this.source),
      this.pastedRow,
      labelled("lab-count", "Prompts at most", this.count),
      labelled("lab-length", "Tokens of a reply", this.length),
    );
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.begin();
    });
    this.form.append(h("div", { class: "lab-buttons" }, this.start));
    this.source.addEventListener("change", () => this.drawForm());
    this.meter = h("i");
    this.doing = h("p", { role: "status" });
    const bar = h("div", { class: "meter" }, this.meter);
    this.progress = h("div", { class: "lab-progress" }, this.doing, bar, this.stop);
    this.problem = h("p", { class: "field-error", role: "alert" });
    this.advice = h("div", { class: "lab-advice", role: "status", hidden: true });
    this.results = h("div", { class: "lab-results" });
    root.append(this.lead, this.form, this.progress, this.problem, this.advice, this.results);
  }

  /** What can be measured may have changed. */
  refresh() {
    this.drawWays();
    this.drawForm();
  }

  drawWays() {
    const { modelBar } = this.page;
    const { target, drafters: chosen } = modelBar.pair();
    setText(
      this.lead,
      target
        ? `Each prompt is answered by ${modelBar.target.labelOf(target)} alone before and after each drafter's turn, with your settings. Chat messages wait their turn meanwhile.`
        : "Choose a target first.",
    );
    const usable = modelBar.drafters.options.filter((option) => option.reason === null);
    const ways = usable.map(({ value, label, detail }) => {
      const text = modelBar.tuning.isSet(value) ? `As it is set above. ${detail}` : detail;
      return { drafters: modelBar.tuning.chosen([value]), label, text };
    });
    if (chosen.length > 1) {
      const labels = chosen.map(({ value }) => modelBar.drafters.labelOf(value));
      ways.unshift({ drafters: chosen, label: labels.join(" + "), text: TOGETHER });
    }
    const wanted = new Set(chosen.length ? chosen.map(({ value }) => value) : ["ngram"]);
    this.ways.replaceChildren(...ways.map((way) => wayBox(way, wanted)));
    this.start.disabled = !target || modelBar.stale;
  }

  drawForm() {
    this.pastedRow.hidden = this.source.value !== "pasted";
  }

  async startChosen() {
    const boxes = [...this.ways.querySelectorAll("input:checked")];
    await this.ask("lab_start", {
      target: this.page.modelBar.pair().target,
      drafters: boxes.map((box) => JSON.parse(box.value)),
      source: this.source.value,
      pasted: this.pasted.value,
      count: Number(this.count.value),
      max_tokens: Number(this.length.value),
    });
  }

  ask(action, args = {}) {
    const draw = (problem) => setText(this.problem, problem && sentence(problem));
    return tell(this.requests, () => this.page.call(action, args), draw);
  }

  /** An event of the server. */
  show(state) {
    const busy = BUSY.has(state.state);
    this.form.hidden = busy;
    this.progress.hidden = !busy;
    this.stop.hidden = !busy;
    this.stop.disabled = state.state === "stopping";
    if (busy) this.showProgress(state);
    const told = [...(state.problems ?? []), ...(state.error ? [state.error] : [])];
    setText(this.problem, [...new Set(told)].map(sentence).join(" "));
    this.showAdvice(state);
    this.results.replaceChildren(...resultsOf(state));
  }

  showProgress({ state, done, total, doing, seconds_left: left }) {
    const parts = [`${done} of ${total} replies`];
    if (left !== null) parts.push(`about ${seconds(left)} left`);
    if (doing) parts.push(doing);
    setText(this.doing, state === "stopping" ? "Stopping after this round" : parts.join(" · "));
    this.meter.style.width = `${total ? (100 * done) / total : 0}%`;
  }

  showAdvice({ sentence: text, chosen, target }) {
    this.advice.hidden = !text;
    if (!text) return;
    const use = () => this.apply(target, chosen);
    this.advice.replaceChildren(h("p", {}, text));
    if (chosen === null) return; // not settled: measure more prompts
    const label = chosen.length ? "Use this" : "Use plain decoding";
    this.advice.append(
      h("button", { type: "button", class: "button primary", onclick: use }, label),
    );
  }

  /** What is recommended becomes what is loaded; drafting is on auto then. */
  async apply(target, chosen) {
    const { attempt, close, modelBar, settings } = this.page;
    close();
    modelBar.target.setValues([target]);
    modelBar.choose(chosen);
    await attempt(async () => {
      if (chosen.length) {
        await settings.change({ speculate: "auto" });
      }
      await modelBar.refresh();
      await modelBar.load();
    });
  }
}

/** wanted: values of the drafters that are chosen; a way of several is what is chosen. */
function wayBox({ drafters, label, text }, wanted) {
  const checked = drafters.length > 1 || wanted.has(drafters[0].value);
  const box = h("input", { type: "checkbox", value: JSON.stringify(drafters), checked });
  const words = h("span", { class: "row-text" }, h("b", {}, label), h("small", {}, text));
  return h("label", { class: "lab-way" }, box, words);
}
