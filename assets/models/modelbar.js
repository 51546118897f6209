/* Target, drafters, Load, and what is in memory.

   models/ is which models there are and which are loaded. It knows nothing of conversations, and
   never reads or writes drafter expressions: a chosen drafter is a row of the list and what is set
   of it, { value, tree, layers, siblings }, and the server makes expressions of that. */

import { Combobox } from "./combobox.js";
import { h, setText } from "../shared/dom.js";
import { bytes, count, sentence, times } from "../shared/format.js";
import { learnNames, nameOf, onNames } from "../shared/names.js";
import { Latest, once } from "../shared/requests.js";
import { Tuning } from "./tuning.js";

const LOAD_SETTINGS = ["context_length", "threads", "gpu_layers", "numerics"];

const NO_TEMPLATE =
  "No chat template in the file: turns are written as “User:” and “Assistant:”. A base model may not keep to them.";

export class ModelBar {
  /** page: { call, ask, toast, openModels } */
  constructor(root, page) {
    this.page = page;
    this.status = root.querySelector("#engine-status");
    this.loadButton = root.querySelector("#load");
    this.summary = root.querySelector("#pair-value");
    // A failed request has been told in a toast by then.
    this.load = once(() => this.loadChosen());
    this.loadButton.addEventListener("click", () => this.load().catch(() => {}));
    const onAction = (action) => this.act(action);
    this.target = new Combobox(root.querySelector("#target-box"), {
      label: "Target",
      placeholder: "Choose a model",
      multiple: false,
      onChange: () => this.targetChanged().catch(() => {}),
      onAction,
    });
    this.tuning = new Tuning(() => this.drawButton());
    this.drafters = new Combobox(root.querySelector("#drafter-box"), {
      label: "Drafters",
      placeholder: "None: plain decoding",
      multiple: true,
      onChange: () => this.draftersChanged(),
      onAction,
      foot: this.tuning.element,
    });
    this.engine = { loaded: null, progress: null, error: null };
    this.settings = {};
    this.targets = [];
    this.requests = new Latest();
    this.fresh = Promise.resolve();
    this.stale = true;
    onNames(() => {
      if (!this.engine.progress) this.showLoaded(this.engine);
    });
  }

  /** The first choice shown: what is loaded, else what was loaded last; later on the user's. */
  async start(engine, preferences) {
    this.settings = preferences.settings;
    if (!this.begun) this.chooseFirst(engine, preferences);
    this.begun = true;
    this.show(engine);
    await this.refresh();
  }

  chooseFirst(engine, preferences) {
    const target = engine.pair ? engine.pair.target : preferences.target;
    const last = preferences.target ? preferences.chosen : [{ value: "ngram" }];
    this.target.setValues(target ? [target] : []);
    this.drafters.setValues(this.tuning.adopt(engine.chosen ?? last));
  }

  /** What is chosen; drafters with what is set of them. */
  pair() {
    const drafters = this.tuning.chosen(this.drafters.values);
    return { target: this.target.values[0] ?? null, drafters };
  }

  /** Whether the dropdowns show what is loaded. */
  isLoaded() {
    const { loaded, loaded_pair: pair, loaded_chosen: chosen } = this.engine;
    if (!loaded || !pair) return false;
    const { target, drafters } = this.pair();
    return target === pair.target && JSON.stringify(drafters) === JSON.stringify(chosen);
  }

  /** Whether it was loaded with the settings as they are now. */
  isCurrent() {
    const request = this.engine.loaded?.request;
    if (!this.isLoaded() || LOAD_SETTINGS.some((name) => request[name] !== this.settings[name])) {
      return false;
    }
    const several = this.pair().drafters.length > 1;
    return !several || this.engine.loaded.kind === this.settings.combination;
  }

  settingsChanged(settings) {
    this.settings = settings;
    this.drawButton();
  }

  /**
   * Ask again which models there are and what can draft for the chosen target. Until that is
   * known nothing can be chosen or loaded: the list on show is of another target.
   */
  refresh() {
    const { target } = this.pair();
    this.setStale(target !== this.listed);
    this.fresh = this.ask(target, this.requests.begin());
    return this.fresh;
  }

  /** Ends when the lists are those of the latest request. */
  async ask(target, isLatest) {
    let options;
    try {
      options = await this.page.call("options", { target });
    } catch (error) {
      if (!isLatest()) return this.fresh;
      this.goBack();
      throw error;
    }
    if (!isLatest()) return this.fresh;
    this.listed = target;
    this.showOptions(options);
    this.setStale(false);
    return null;
  }

  /** The lists could not be had: the target is again the one that they are of. */
  goBack() {
    if (this.listed === undefined) return;
    this.target.setValues(this.listed === null ? [] : [this.listed]);
    this.setStale(false);
  }

  setStale(stale) {
    this.stale = stale;
    this.drafters.setStale(stale);
    this.drawButton();
  }

  showOptions(options) {
    this.targets = options.targets;
    this.target.setOptions(options.targets);
    this.drafters.setOptions(options.drafters);
    const usable = new Set(
      options.drafters.filter((option) => option.reason === null).map((option) => option.value),
    );
    const kept = this.drafters.values.filter((value) => usable.has(value));
    if (kept.length < this.drafters.values.length) this.drafters.setValues(kept);
    this.draftersChanged();
  }

  draftersChanged() {
    this.tuning.draw(this.drafters.options, this.drafters.values);
    this.drawButton();
  }

  /** chosen: drafters as in pair(). */
  choose(chosen) {
    this.drafters.setValues(this.tuning.adopt(chosen));
    this.draftersChanged();
  }

  async targetChanged() {
    const before = this.drafters.values;
    await this.refresh();
    const dropped = before.filter((value) => !this.drafters.values.includes(value));
    for (const value of dropped) {
      const option = this.drafters.options.find((one) => one.value === value);
      this.page.toast(`${option?.label ?? value} was taken off: ${option?.reason ?? "gone"}`);
    }
  }

  act(action) {
    const model = action.slice(action.indexOf(":") + 1);
    for (const box of [this.target, this.drafters]) box.close(true); // the dialog gives the focus back
    this.page.openModels(model);
  }

  /** With the lists of the target that is chosen, however often it changed just before. */
  async loadChosen() {
    await this.fresh;
    const pair = this.pair();
    if (!pair.target) {
      this.target.open();
      return;
    }
    const warning = await this.page.call("memory", pair);
    if (warning) {
      const question = { title: "Little memory left", text: sentence(warning), yes: "Load anyway" };
      if (!(await this.page.ask(question))) return;
    }
    await this.page.call("load", pair);
  }

  show(engine) {
    this.engine = engine;
    learnNames(engine.names);
    if (engine.progress) this.showProgress(engine.progress);
    else this.showLoaded(engine);
    this.drawButton();
  }

  drawButton() {
    const { progress } = this.engine;
    const same = this.isLoaded();
    const current = this.isCurrent();
    this.loadButton.title = same && !current ? "Load again with the changed settings" : "";
    this.loadButton.disabled = Boolean(progress) || this.stale;
    this.loadButton.classList.toggle("primary", !current);
    this.loadButton.textContent = progress ? "Loading" : same ? "Reload" : "Load";
    setText(this.summary, this.summaryText());
  }

  /** What is chosen and how it stands, in a few words: all that narrow pages show of it. */
  summaryText() {
    const [target] = this.target.values;
    if (!target) return "Choose a model";
    const names = this.drafters.values.map((value) => this.drafters.labelOf(value));
    const pair = `${this.target.labelOf(target)} · ${names.join(" + ") || "no drafter"}`;
    if (this.engine.progress) return `Loading ${pair}`;
    return this.isLoaded() ? pair : `Not loaded: ${pair}`;
  }

  showProgress({ label, fraction }) {
    const percent = Math.round(100 * fraction);
    if (!this.meter?.isConnected) {
      this.meter = h("i");
      this.meterText = h("span");
      const bar = h("div", { class: "meter" }, this.meter);
      const onclick = () => this.page.call("load_stop", {}).catch(() => {});
      const stop = h(
        "button",
        { type: "button", class: "button", id: "load-stop", onclick },
        "Stop",
      );
      this.status.className = "engine-status loading";
      this.status.replaceChildren(this.meterText, bar, stop);
    }
    this.meter.style.width = `${percent}%`;
    this.meterText.textContent = `${label.charAt(0).toUpperCase()}${label.slice(1)} · ${percent}%`;
  }

  showLoaded({ loaded, error }) {
    if (error) {
      const rest = loaded
        ? ` ${nameOf(loaded.target.id)} is still loaded.`
        : " Nothing is loaded. Choose another model and press Load.";
      this.showMessage("error", `${sentence(error.message)}${rest}`);
    } else if (loaded) {
      const { target, drafters, memory_bytes: memory, notices, strict_width: width } = loaded;
      const names = drafters.map(drafterText).join(", ") || "no drafter";
      const parts = [
        `${nameOf(target.id)} with ${names}`,
        `context ${count(target.context_length)}`,
        `${bytes(memory)} in memory`,
      ];
      if (width > 1) parts.push("greedy text identical with and without drafting");
      parts.push(...Object.entries(loaded.predicted).map(predictedText));
      const all = loaded.has_chat_template ? notices : [...notices, NO_TEMPLATE];
      this.showMessage("ready", parts.join(" · "), all);
    } else {
      this.showMessage("idle", "No model is loaded.");
    }
  }

  showMessage(kind, text, notices = []) {
    this.status.className = `engine-status ${kind}`;
    const notes = notices.map((notice) => h("span", { class: "engine-notice" }, notice));
    this.status.replaceChildren(h("span", {}, text), ...notes);
  }
}

/** Its name, and for an ensemble what each of its members takes. */
function drafterText({ name, kind, memory_bytes: memory, members = [] }) {
  if (members.length < 2) return nameOf(name);
  const texts = members.map((one) => `${drafterText(one)}${sizeText(one)}`);
  return `${kind} of ${texts.join(", ")} (${bytes(memory)} together)`;
}

const predictedText = ([kind, speedup]) => `expected ${kind}: ${times(speedup)}`;

const sizeText = ({ memory_bytes: memory, members = [] }) =>
  members.length > 1 || memory === 0 ? "" : ` ${bytes(memory)}`;
