/* What to train, on what, and for how long. */

import { h, setText } from "../shared/dom.js";
import { numberInput } from "../shared/fields.js";
import { bytes, count } from "../shared/format.js";
import { Latest, once } from "../shared/requests.js";

const KINDS = [
  ["medusa", "Medusa heads", "Quick to train and cheap to run. A few tokens ahead."],
  ["eagle3", "EAGLE-3", "Keeps more of its drafts, and takes longer to learn."],
  ["early-exit", "Early exit", "The first layers of the target, taught to write like it."],
];
const PER_DATA = 100_000;

export class TrainForm {
  /** page: { call, started } */
  constructor(page) {
    this.page = page;
    this.options = { targets: [], taken: [], free_bytes: 0 };
    this.named = false;
    this.forecasts = new Latest();
    this.begin = once(() => this.start());
    this.possible = true;
    this.element = h("form", { class: "train-form" });
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.begin();
    });
    this.element.addEventListener("input", () => this.changed());
    this.build();
  }

  build() {
    this.kinds = KINDS.map(([value, label, note], index) => {
      const input = h("input", { type: "radio", name: "kind", value, checked: index === 0 });
      const text = h("span", { class: "row-text" }, h("b", {}, label), h("small", {}, note));
      return [input, h("label", { class: "kind" }, input, text)];
    });
    this.target = h("select", { id: "train-target" });
    this.amount = numberInput("train-amount", 30, 1, 1_000_000_000);
    this.unit = h(
      "select",
      { id: "train-unit", "aria-label": "Unit of the budget" },
      h("option", { value: "minutes" }, "minutes"),
      h("option", { value: "tokens" }, "tokens of data"),
    );
    this.unit.addEventListener("change", () => this.unitChanged());
    this.texts = h("textarea", { id: "train-texts", rows: "2", spellcheck: "false" });
    this.texts.placeholder =
      "One folder or file in each line, .jsonl files with prompts too; none: built-in questions and the target's own";
    this.chats = h("input", { type: "checkbox", id: "train-chats" });
    this.heads = numberInput("train-heads", 4, 1, 8);
    this.vocabulary = numberInput("train-vocabulary", 16000, 256, 1_000_000);
    this.depth = numberInput("train-depth", 4, 1, 8);
    this.name = h("input", { type: "text", id: "train-name", autocomplete: "off" });
    this.name.addEventListener("input", () => (this.named = this.name.value !== ""));
    this.estimate = h("p", { class: "train-estimate", id: "train-estimate" });
    this.forecast = h("p", { class: "train-forecast", role: "status" });
    this.problem = h("p", { class: "field-error", role: "alert" });
    this.submit = h("button", { type: "submit", class: "button primary" }, "Start training");
    this.rows = {
      medusa: [row("Heads (tokens ahead)", this.heads)],
      eagle3: [
        row("Tokens it can draft", this.vocabulary),
        row("Depth (tokens ahead)", this.depth),
      ],
      "early-exit": [],
    };
    const chats = h("label", { class: "check" }, this.chats, "Learn from my chats too");
    const legend = h("legend", { class: "visually-hidden" }, "What to train");
    this.element.append(
      h("fieldset", { class: "kinds" }, legend, ...this.kinds.map(([, label]) => label)),
      row("Target", this.target),
      row("Budget", h("span", { class: "budget" }, this.amount, this.unit), this.amount),
      row("Name", this.name),
      ...Object.values(this.rows).flat(),
      h(
        "div",
        { class: "field wide" },
        h("label", { for: "train-texts" }, "Your own text"),
        this.texts,
      ),
      chats,
      this.estimate,
      this.forecast,
      this.problem,
      this.submit,
    );
  }

  /** options: of the server; target: what the model bar shows */
  show(options, target) {
    const before = this.target.value || target;
    this.options = options;
    const choices = options.targets.map(({ value, label }) => h("option", { value }, label));
    this.target.replaceChildren(...choices);
    const known = options.targets.some(({ value }) => value === before);
    if (known) this.target.value = before;
    this.changed();
  }

  get kind() {
    return this.kinds.find(([input]) => input.checked)[0].value;
  }

  unitChanged() {
    this.amount.value = this.unit.value === "minutes" ? 30 : 500_000;
    this.changed();
  }

  changed() {
    const { kind } = this;
    for (const [name, rows] of Object.entries(this.rows)) {
      for (const one of rows) one.hidden = name !== kind;
    }
    if (!this.named) this.name.value = freeName(kind, this.options.taken);
    setText(this.problem, "");
    this.drawEstimate(null);
    this.askForecast();
  }

  /** Whether it will pay, said before any time is spent; only the last answer counts. */
  async askForecast() {
    const isLatest = this.forecasts.begin();
    let answer = { text: "", pays: null, bytes: null, possible: true };
    try {
      answer = await this.page.call("train_forecast", this.wishes());
    } catch {
      // A form that is half filled in has no forecast; Start says what is wrong with it.
    }
    if (!isLatest()) return;
    this.possible = answer.possible;
    this.drawEstimate(answer.bytes);
    setText(this.forecast, answer.text);
    this.forecast.classList.toggle("loses", answer.pays === false);
  }

  wishes() {
    const inMinutes = this.unit.value === "minutes";
    const amount = Number(this.amount.value);
    return {
      kind: this.kind,
      target: this.target.value,
      name: this.name.value.trim(),
      minutes: inMinutes ? amount : null,
      tokens: inMinutes ? null : amount,
      texts: this.texts.value.split("\n"),
      chats: this.chats.checked,
      heads: Number(this.heads.value),
      draft_vocab: Number(this.vocabulary.value),
      depth: Number(this.depth.value),
    };
  }

  /** needed: bytes that the tokens asked for will take, null while it is not known */
  drawEstimate(needed) {
    const { free_bytes: free, targets } = this.options;
    const each = targets.find(({ value }) => value === this.target.value)?.token_bytes ?? 0;
    const room = `${bytes(free)} are free.`;
    const inTokens = this.unit.value === "tokens";
    if (needed === null && inTokens) {
      this.submit.disabled ||= !this.possible;
      return; // what stood there stays until there is an answer
    }
    const over = needed > free;
    this.estimate.classList.toggle("over", over);
    if (!each) setText(this.estimate, room);
    else if (inTokens) {
      const size = `${count(Number(this.amount.value))} tokens of data take ${bytes(needed)} more on disk`;
      setText(this.estimate, over ? `${size}: too much, ${room}` : `${size}; ${room}`);
    } else {
      const size = `Every ${count(PER_DATA)} tokens of data take ${bytes(each * PER_DATA)} on disk`;
      setText(this.estimate, `${size}; ${room} How many come together shows after a minute.`);
    }
    this.submit.disabled = over || !this.target.value || !this.possible;
  }

  async start() {
    try {
      await this.page.call("train", this.wishes());
      setText(this.problem, "");
    } catch (error) {
      setText(this.problem, error.message);
    }
  }
}

function freeName(kind, taken) {
  let number = 1;
  while (taken.includes(`${kind}-${number}`)) number += 1;
  return `${kind}-${number}`;
}

function row(label, control, labelled = control) {
  return h("div", { class: "field" }, h("label", { for: labelled.id }, label), control);
}
