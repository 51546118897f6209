/* The settings form, built from the server's table of fields. Every change is kept at once. */

import { h, setText } from "../shared/dom.js";
import { InOrder } from "../shared/requests.js";

const GROUP_NOTES = {
  Reply: "Used from the next reply on.",
  Drafting: "Used from the next reply on.",
  Loading: "Used at the next load: press Reload in the model bar after a change.",
};

export class SettingsForm {
  /** page: { call, changed, prefix: of the ids, where the page has another such form } */
  constructor(root, page) {
    this.root = root;
    this.prefix = page.prefix ?? "setting";
    this.page = page;
    this.inputs = new Map();
    this.rows = new Map();
    this.typed = new Set();
    this.saves = new InOrder();
  }

  /** The form, once; after that only the values may be others. */
  build(fields, values) {
    if (!this.inputs.size) this.buildRows(fields);
    this.show(values);
  }

  buildRows(fields) {
    const groups = Map.groupBy
      ? Map.groupBy(fields, (field) => field.group)
      : groupBy(fields, (field) => field.group);
    const parts = [...groups].map(([name, members]) =>
      h(
        "fieldset",
        {},
        h("legend", {}, name),
        h("p", { class: "group-note" }, GROUP_NOTES[name]),
        ...members.map((field) => this.row(field)),
      ),
    );
    this.root.replaceChildren(...parts);
  }

  row(field) {
    const id = `${this.prefix}-${field.name}`;
    const input = this.input(field, id);
    const offers = suggestions(field, input);
    const help = h("span", { class: "help-text", role: "tooltip", id: `${id}-help` }, field.help);
    const mark = h("button", {
      type: "button",
      class: "help",
      "aria-label": `About ${field.label}`,
    });
    mark.setAttribute("aria-describedby", `${id}-help`);
    mark.append("?", help);
    const problem = h("p", { class: "field-error", id: `${id}-error`, role: "alert" });
    input.setAttribute("aria-describedby", `${id}-help ${id}-error`);
    input.addEventListener("input", () => this.typed.add(field.name));
    input.addEventListener("change", () => this.save(field, input, problem));
    this.inputs.set(field.name, input);
    const label = h("label", { for: id }, field.label);
    const kind = field.kind === "text" ? "field wide" : "field";
    const head = h("div", { class: "field-head" }, label, mark);
    const row = h("div", { class: kind }, head, input, ...offers, problem);
    this.rows.set(field.name, row);
    return row;
  }

  /** What can be set of thinking is what the loaded template can be told. */
  fit(reasoning) {
    const levels = reasoning?.effort?.levels ?? [];
    this.rows.get("thinking")?.toggleAttribute("hidden", !reasoning?.switch);
    this.rows.get("effort")?.toggleAttribute("hidden", levels.length === 0);
    this.rows.get("thinking_budget")?.toggleAttribute("hidden", !reasoning);
    for (const option of this.inputs.get("effort")?.options ?? []) {
      option.hidden = option.value !== "auto" && !levels.includes(option.value);
    }
  }

  input(field, id) {
    if (field.kind === "text") return h("textarea", { id, rows: "4" });
    if (field.kind === "choice") {
      const options = field.choices.map(([value, label]) => h("option", { value }, label));
      return h("select", { id }, ...options);
    }
    return h("input", {
      id,
      type: "number",
      min: field.minimum,
      max: field.maximum,
      step: field.kind === "number" ? "any" : field.step,
      placeholder: field.empty || null,
      inputmode: field.kind === "number" ? "decimal" : "numeric",
    });
  }

  /** What is typed and not taken yet stays. */
  show(values) {
    for (const [name, input] of this.inputs) {
      if (!this.typed.has(name)) input.value = values[name] ?? "";
    }
  }

  /** Changes are made one after the other, so the last one stays. Gives all values. */
  change(changes) {
    return this.saves.run(async () => {
      const values = await this.page.call("settings", { changes });
      this.page.changed(values);
      this.show(values);
      return values;
    });
  }

  async save(field, input, problem) {
    const written = input.value;
    try {
      const values = await this.change({ [field.name]: read(field, input) });
      if (input.value !== written) return; // it has been typed on
      this.typed.delete(field.name);
      setText(problem, "");
      input.removeAttribute("aria-invalid");
      this.show(values);
    } catch (error) {
      if (input.value !== written) return;
      setText(problem, `${error.message}. The last good value is still in use.`);
      input.setAttribute("aria-invalid", "true");
    }
  }

  focus(name) {
    const input = this.inputs.get(name);
    input?.scrollIntoView({ block: "center" });
    input?.focus();
  }
}

/** A list of the numbers that are offered; any other can be typed. */
function suggestions(field, input) {
  if (!field.suggested?.length) return [];
  const id = `${input.id}-suggested`;
  input.setAttribute("list", id);
  return [h("datalist", { id }, ...field.suggested.map((value) => h("option", { value })))];
}

function read(field, input) {
  if (field.kind === "text" || field.kind === "choice") return input.value;
  if (input.value === "" && field.empty && !input.validity.badInput) return null;
  if (input.value === "") throw new Error(`${field.label} must be a number`);
  return Number(input.value);
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return groups;
}
