/* The Lab: which drafter pays on this machine, measured on the user's own prompts. */

import { h, setText } from "./dom.js";
import { percent, rate, seconds, sentence } from "./format.js";
import { Race } from "./race.js";

const BUSY = new Set(["running", "stopping"]);

export class Lab {
  /** page: { call, attempt, modelBar, settings, lastPrompt() } */
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.dialog = root.querySelector("#lab-dialog");
    const body = root.querySelector("#lab-body");
    this.state = { state: "idle" };
    this.measure = h("section", { id: "lab-measure", role: "tabpanel" });
    this.raceBox = h("section", { id: "lab-race", role: "tabpanel", hidden: true });
    body.append(this.tabs(), this.measure, this.raceBox);
    this.race = new Race(this.raceBox, page);
    this.build();
  }

  tabs() {
    const names = { measure: "Measure", race: "Race" };
    this.tabButtons = Object.entries(names).map(([value, label]) =>
      h("button", { type: "button", role: "tab", "data-value": value }, label),
    );
    const list = h("div", { class: "segments", role: "tablist", "aria-label": "Lab" });
    list.append(...this.tabButtons);
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.choose(tab.dataset.value);
    });
    list.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      const other = this.tabButtons.find((tab) => tab.getAttribute("aria-selected") === "false");
      this.choose(other.dataset.value);
      other.focus();
    });
    return list;
  }

  choose(value) {
    for (const tab of this.tabButtons) {
      const chosen = tab.dataset.value === value;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.measure.hidden = value !== "measure";
    this.raceBox.hidden = value !== "race";
  }

  build() {
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
    this.pastedRow = row("lab-pasted", "Prompts, pasted", this.pasted, "wide");
    this.count = number("lab-count", 6, 1, 100);
    this.length = number("lab-length", 64, 8, 1024);
    this.start = h("button", { type: "submit", class: "button primary" }, "Measure");
    this.stop = h("button", { type: "button", class: "button", hidden: true }, "Stop");
    this.stop.addEventListener("click", () => this.ask("lab_stop"));
    this.form = h(
      "form",
      { class: "lab-form" },
      h("h3", {}, "Drafters to compare with plain decoding"),
      this.ways,
      row("lab-source", "Prompts", this.source),
      this.pastedRow,
      row("lab-count", "Prompts at most", this.count),
      row("lab-length", "Tokens of a reply", this.length),
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
    this.measure.append(
      this.lead,
      this.form,
      this.progress,
      this.problem,
      this.advice,
      this.results,
    );
    this.choose("measure");
  }

  /** The dialog opens: what can be measured may have changed. */
  async open() {
    await this.page.attempt(() => this.page.modelBar.refresh());
    this.drawWays();
    this.drawForm();
    this.race.open();
    this.dialog.showModal();
  }

  drawWays() {
    const { target, drafters: chosen } = this.page.modelBar.pair();
    setText(
      this.lead,
      target
        ? `Each prompt is answered by ${target} alone and with each drafter, in turns, with your settings. Chat messages wait their turn meanwhile.`
        : "Choose a target first.",
    );
    const usable = this.page.modelBar.drafters.options.filter((option) => option.reason === null);
    const ways = usable.map((option) => [[option.value], option.label, option.detail]);
    if (chosen.length > 1) {
      const labels = chosen.map(
        (value) => usable.find((one) => one.value === value)?.label ?? value,
      );
      ways.unshift([chosen, labels.join(" + "), "Together, as chosen above."]);
    }
    const wanted = chosen.length ? new Set([JSON.stringify(chosen)]) : new Set(['["ngram"]']);
    for (const value of chosen) wanted.add(JSON.stringify([value]));
    this.ways.replaceChildren(...ways.map((way) => wayBox(way, wanted)));
    this.start.disabled = !target;
  }

  drawForm() {
    this.pastedRow.hidden = this.source.value !== "pasted";
  }

  async begin() {
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

  async ask(action, args = {}) {
    setText(this.problem, "");
    try {
      await this.page.call(action, args);
    } catch (error) {
      setText(this.problem, sentence(error.message));
    }
  }

  /** An event of the server. */
  show(state) {
    this.state = state;
    const busy = BUSY.has(state.state);
    this.form.hidden = busy;
    this.progress.hidden = !busy;
    this.stop.hidden = !busy;
    this.stop.disabled = state.state === "stopping";
    if (busy) this.showProgress(state);
    const told = [...(state.problems ?? []), ...(state.error ? [state.error] : [])];
    setText(this.problem, [...new Set(told)].map(sentence).join(" "));
    this.showAdvice(state);
    this.showResults(state);
  }

  showProgress({ state, done, total, doing, seconds_left: left }) {
    const parts = [`${done} of ${total} replies`];
    if (left !== null) parts.push(`about ${seconds(left)} left`);
    if (doing) parts.push(doing);
    setText(this.doing, state === "stopping" ? "Stopping after this round" : parts.join(" · "));
    this.meter.style.width = `${total ? (100 * done) / total : 0}%`;
  }

  showAdvice({ sentence: text, recommended, target }) {
    this.advice.hidden = !text;
    if (!text) return;
    const use = () => this.apply(target, recommended);
    const label = recommended.length ? "Use this" : "Use plain decoding";
    this.advice.replaceChildren(
      h("p", {}, text),
      h("button", { type: "button", class: "button primary", onclick: use }, label),
    );
  }

  /** What is recommended becomes what is loaded; drafting is on auto then. */
  async apply(target, drafters) {
    const { call, attempt, modelBar, settings } = this.page;
    this.dialog.close();
    modelBar.target.setValues([target]);
    modelBar.chooseDrafters(drafters);
    await attempt(async () => {
      if (drafters.length) {
        const values = await call("settings", { changes: { speculate: "auto" } });
        settings.show(values);
        modelBar.settingsChanged(values);
      }
      await modelBar.refresh();
      await modelBar.load();
    });
  }

  showResults({ figures = [], prompts, state }) {
    if (!figures.length) {
      this.results.replaceChildren();
      return;
    }
    const measured = figures.at(-1).prompts; // plain decoding has a set for each drafter
    const categories = Object.keys(figures[0].by_category);
    const columns = categories.length > 1 ? categories : [];
    const widest = Math.max(...figures.map((one) => one.high), 1);
    const names = ["", "speed-up", null, "tokens/s", "accepted", ...columns];
    const head = h("tr", {}, ...names.map(columnHead));
    const rows = figures.map((one) => resultRow(one, columns, widest));
    const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows));
    const partial = state === "stopped" ? `Stopped. ` : "";
    const caption = `${partial}${measured} prompts for each drafter${prompts > measured ? ` of ${prompts}` : ""}; the line is the 95 % interval over prompts.`;
    this.results.replaceChildren(
      h("div", { class: "lab-table" }, table),
      h("p", { class: "group-note" }, caption),
    );
  }
}

function columnHead(name) {
  return name === null ? h("td", { class: "lab-bar-cell" }) : h("th", { scope: "col" }, name);
}

function resultRow(one, columns, widest) {
  const place = (value) => `${(100 * value) / widest}%`;
  const bar = h("div", { class: `lab-bar ${one.plain ? "plain" : ""}` });
  bar.append(h("i", { style: `width: ${place(one.speedup)}` }));
  if (!one.plain && one.prompts > 1) {
    const width = `${(100 * (one.high - one.low)) / widest}%`;
    bar.append(h("b", { style: `left: ${place(one.low)}; width: ${width}` }));
    bar.title = `${one.low.toFixed(2)} to ${one.high.toFixed(2)}`;
  }
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.label),
    h("td", {}, `${one.speedup.toFixed(2)}×`),
    h("td", { class: "lab-bar-cell" }, bar),
    h("td", {}, rate(one.tokens_per_second)),
    h("td", {}, percent(one.plain ? null : one.acceptance_rate)),
    ...columns.map((name) => h("td", {}, `${one.by_category[name].toFixed(2)}×`)),
  );
}

function wayBox([values, label, detail], wanted) {
  const value = JSON.stringify(values);
  const box = h("input", { type: "checkbox", value, checked: wanted.has(value) });
  const text = h("span", { class: "row-text" }, h("b", {}, label), h("small", {}, detail));
  return h("label", { class: "lab-way" }, box, text);
}

function row(id, label, input, kind = "") {
  const head = h("div", { class: "field-head" }, h("label", { for: id }, label));
  return h("div", { class: `field ${kind}` }, head, input);
}

function number(id, value, min, max) {
  return h("input", { id, type: "number", value: String(value), min, max, inputmode: "numeric" });
}

function select(id, choices) {
  const options = choices.map(([value, label]) => h("option", { value }, label));
  return h("select", { id }, ...options);
}
