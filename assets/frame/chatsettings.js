/* What one chat sets instead of the general settings: its preset, system prompt and sampling.

   A chat that is not begun yet begins with what is chosen here. */

import { h, setText } from "../shared/dom.js";
import { InOrder, Latest } from "../shared/requests.js";
import { PresetList } from "./presets.js";
import { SettingsForm } from "./settings.js";

const NAMES = [
  "system_prompt",
  "temperature",
  "top_k",
  "top_p",
  "min_p",
  "repeat_penalty",
  "presence_penalty",
];

export class ChatSettings {
  /** page: { call, ask, session, current, begin(conversation): what is being written goes along } */
  constructor(root, page) {
    this.page = page;
    this.requests = new Latest();
    this.turns = new InOrder();
    this.conversation = null;
    this.begun = null; // the chat that the first choice for a new one has begun
    this.dialog = root.querySelector("#chat-settings-dialog");
    this.intro = h("p", { class: "group-note" });
    this.problem = h("p", { class: "field-error", role: "alert" });
    this.advice = h("div", { class: "advice", hidden: true });
    this.formPlace = h("div");
    this.form = new SettingsForm(this.formPlace, {
      prefix: "chat-setting",
      changed: () => {},
      call: (_, { changes }) => this.change(changes),
    });
    this.presets = new PresetList({
      ask: page.ask,
      session: page.session,
      call: (action, args) => this.tell(action, args),
      refresh: () => this.tell("chat_settings"),
    });
    const body = root.querySelector("#chat-settings-body");
    body.append(this.intro, this.problem, this.presets.choice, this.advice, this.formPlace);
    body.append(this.presets.element);
    this.presets.catchDrops(this.dialog);
  }

  build(fields) {
    if (this.form.inputs.size) return;
    this.form.build(
      fields.filter((field) => NAMES.includes(field.name)),
      {},
    );
    this.origins = new Map(
      [...this.form.rows].map(([name, row]) => [name, this.origin(name, row)]),
    );
  }

  /** Beside each field: whose value that is, and the way back. */
  origin(name, row) {
    const text = h("span");
    const back = h("button", { type: "button", class: "quiet-button" }, "Put back");
    back.addEventListener("click", () => {
      this.form.typed.delete(name);
      row.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
      setText(row.querySelector(".field-error"), "");
      this.form.change({ [name]: null }).catch((error) => setText(this.problem, error.message));
      this.form.inputs.get(name).focus();
    });
    row.append(h("p", { class: "origin" }, text, back));
    return { text, back };
  }

  open() {
    this.conversation = this.page.current();
    this.begun = null;
    this.form.typed.clear();
    if (!this.dialog.open) this.dialog.showModal();
    return this.tell("chat_settings");
  }

  /** Why it could not be done stands in the dialog. */
  async tell(action, args = {}) {
    const isLatest = this.requests.begin();
    setText(this.problem, "");
    try {
      const state = await this.ask(action, args);
      if (isLatest()) this.show(state);
      return state;
    } catch (error) {
      if (isLatest()) setText(this.problem, error.message);
      return null;
    }
  }

  /** One after the other: the first choice begins the chat that the next one is about. */
  ask(action, args) {
    const asked = this.conversation;
    return this.turns.run(async () => {
      const conversation = asked ?? this.begun;
      const state = await this.page.call(action, { conversation, ...args });
      if (conversation === null && state.conversation !== null) {
        this.begun = state.conversation;
        if (this.conversation === null) this.conversation = this.begun;
        if (this.page.current() === null) this.page.begin(this.begun);
      }
      return state;
    });
  }

  /** A field was changed: gives all values. */
  async change(changes) {
    const isLatest = this.requests.begin();
    const state = await this.ask("chat_set", { changes });
    if (isLatest()) this.show(state);
    return state.values;
  }

  show(state) {
    this.form.show(state.values);
    for (const [name, { text, back }] of this.origins) {
      const own = state.own.includes(name);
      setText(text, own ? "Only in this chat" : "As in the general settings");
      back.hidden = !own;
    }
    const whose = state.conversation === null ? "The next chat begins with this." : "";
    const speaker = state.character ? `${state.character} speaks in this chat.` : "";
    setText(this.intro, [whose, speaker].filter(Boolean).join(" "));
    this.intro.hidden = !this.intro.textContent;
    this.showAdvice(state);
    this.presets.show(state);
  }

  showAdvice({ advice, values }) {
    const named = Object.entries(advice?.values ?? {});
    const differs = named.some(([name, value]) => values[name] !== value);
    this.advice.hidden = !differs;
    if (!differs) return;
    const list = named.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");
    const use = () => this.form.change(advice.values).catch(() => {});
    const button = h("button", { type: "button", class: "button", onclick: use }, "Use it here");
    const text = `The makers of ${advice.family} recommend ${list}.`;
    this.advice.replaceChildren(h("span", {}, text), button);
  }
}
