/* The page: builds its parts, hands server events to them, and user actions to the server. */

import { Connection } from "./connection.js";
import { dressButtons, setText } from "./dom.js";
import { Figures } from "./figures.js";
import { count } from "./format.js";
import { Lab } from "./lab.js";
import { Log } from "./log.js";
import { ModelBar } from "./modelbar.js";
import { Models } from "./models.js";
import { SettingsForm } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { Surroundings } from "./surroundings.js";
import { Tooltip } from "./tooltip.js";
import { Train } from "./train.js";
import { Transcript } from "./transcript.js";
import { ViewBar } from "./viewbar.js";
import { welcomeParts } from "./welcome.js";

const CHAT_EVENTS = new Set(["user", "start", "queued", "prefill", "tok", "notice", "end", "cut"]);

class Page {
  constructor(bridge) {
    this.root = bridge.element.querySelector(".forerun");
    dressButtons(this.root);
    this.conversation = null;
    this.writing = null;
    this.chatFrom = 0;
    this.opening = null;
    this.connection = new Connection(bridge, {
      hello: (hello) => this.hello(hello),
      event: (event, number) => this.event(event, number),
      online: (online) => this.surroundings.showOnline(online),
      conversation: () => this.conversation,
    });
    this.buildParts();
    this.listen();
  }

  $(selector) {
    return this.root.querySelector(selector);
  }

  buildParts() {
    const call = (action, args) => this.connection.call(action, args);
    const toast = (text, action) => this.surroundings.toast(text, action);
    const use = (target, drafter) => this.use(target, drafter);
    const refresh = () => this.refreshModels();
    this.surroundings = new Surroundings(this.root);
    this.figures = new Figures(this.$("#figures"));
    this.transcript = new Transcript(
      { scroller: this.$("#transcript"), list: this.$("#messages"), toEnd: this.$("#to-end") },
      {
        regenerate: (id) => this.attempt(() => call("regenerate", { message: id })),
        edit: (id, text) => this.attempt(() => call("edit", { message: id, text })),
        showFigures: (entry) => this.showFigures(entry),
        newChat: () => this.open(null),
        openSettings: (field) => this.openSettings(field),
        trim: (id) => this.trim(id),
        canTrim: () => this.modelBar.settings.overflow !== "trim",
      },
    );
    this.tooltip = new Tooltip(this.$("#tip"), this.$("#transcript"), (element) =>
      this.transcript.tokenOf(element),
    );
    this.viewBar = new ViewBar(this.root, {
      changed: (changes) => this.attempt(() => call("view", { changes })),
      viewChanged: (view) => this.transcript.setView(view),
    });
    this.modelBar = new ModelBar(this.root, {
      call: (action, args) => this.loud(() => call(action, args)),
      ask: (question) => this.surroundings.ask(question),
      toast,
      openModels: (model) => this.openModels(model),
    });
    this.sidebar = new Sidebar(this.root, {
      call: (action, args) => this.loud(() => call(action, args)),
      toast,
      open: (id) => this.open(id),
      current: () => this.conversation,
    });
    this.settings = new SettingsForm(this.$("#settings-form"), {
      call,
      changed: (values) => this.modelBar.settingsChanged(values),
    });
    this.log = new Log(this.root, { call });
    this.train = new Train(this.$("#train-body"), {
      call: (action, args) => this.loud(() => call(action, args)),
      ask: (question) => this.surroundings.ask(question),
      use,
      target: () => this.modelBar.pair().target,
    });
    this.lab = new Lab(this.root, {
      call,
      attempt: (action) => this.attempt(action),
      modelBar: this.modelBar,
      settings: this.settings,
      lastPrompt: () => this.transcript.lastPrompt(),
    });
    this.models = new Models(this.$("#models-body"), { call, toast, use, refresh });
  }

  listen() {
    const box = this.$("#message-box");
    this.$("#composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send();
      }
    });
    box.addEventListener("input", () => fitHeight(box));
    this.$("#stop").addEventListener("click", () => this.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.$("dialog[open]")) return;
      if (!this.surroundings.closeDrawers() && this.writing) this.stop();
    });
    this.$("#new-chat").addEventListener("click", () => this.open(null));
    this.$("#open-settings").addEventListener("click", () => this.openSettings());
    this.$("#open-models").addEventListener("click", () => this.openModels());
    this.$("#open-train").addEventListener("click", () => this.openTrain());
    this.$("#open-log").addEventListener("click", () => this.log.open());
    this.$("#open-lab").addEventListener("click", () => this.lab.open());
    addEventListener("hashchange", () => {
      if (this.conversation !== fromHash()) this.open(fromHash());
    });
  }

  /** Run an action; an error becomes a toast. True if it went well. */
  async attempt(action) {
    try {
      await action();
      return true;
    } catch (error) {
      this.surroundings.toast(error.message);
      return false;
    }
  }

  /** As attempt, but the caller gets the result or the error too. */
  async loud(action) {
    try {
      return await action();
    } catch (error) {
      this.surroundings.toast(error.message);
      throw error;
    }
  }

  start() {
    return this.connection.start(fromHash());
  }

  hello(hello) {
    this.root.hidden = false;
    this.settings.build(hello.fields, hello.preferences.settings);
    this.viewBar.show(hello.preferences.view);
    this.drawChat(hello.chat);
    this.sidebar.changed(hello.conversations);
    this.models.showDownloads(hello.downloads);
    this.modelBar.start(hello.engine, hello.preferences).then(() => this.drawWelcome());
    this.train.show(hello.training.job);
    this.lab.show(hello.lab);
    this.lab.race.show(hello.race, false);
    if (hello.problem) this.surroundings.toast(hello.problem);
    this.root.dataset.ready = "true";
  }

  event(event, number) {
    if (CHAT_EVENTS.has(event.k)) {
      if (this.opening) this.opening.push([event, number]);
      else if (number >= this.chatFrom) this.chatEvent(event);
    } else if (event.k === "conversations") this.sidebar.changed(event.items);
    else if (event.k === "engine") this.engineChanged(event);
    else if (event.k === "lab") this.lab.show(event);
    else if (event.k === "race") this.lab.race.show(event);
    else if (event.k === "downloads") this.downloadsChanged(event.items);
    else if (event.k === "training") this.trainingChanged(event.job);
  }

  chatEvent(event) {
    switch (event.k) {
      case "user":
        this.transcript.addUser(event.m, event.text);
        break;
      case "start":
        this.transcript.start(event.m, event.details);
        this.setWriting(event.m);
        this.figures.clear();
        break;
      case "queued":
        this.showProgress(event.m, `In the queue, place ${event.place}`, 0);
        break;
      case "prefill": {
        const { done, total, reused } = event;
        const kept = reused ? `, ${count(reused)} reused` : "";
        const text = `Reading the prompt: ${count(done)} of ${count(total)} tokens${kept}`;
        this.showProgress(event.m, text, total ? done / total : 1);
        break;
      }
      case "tok":
        this.tokens(event);
        break;
      case "notice":
        this.transcript.note(event.m, event.text);
        break;
      case "end":
        this.ended(event);
        break;
      case "cut":
        this.transcript.cut(event.m);
        break;
    }
    this.drawWelcome();
  }

  tokens({ m, at, add, drafters, stats }) {
    if (!this.transcript.push(m, at, add, drafters)) {
      this.open(this.conversation);
      return;
    }
    if (drafters) this.viewBar.setDrafters(drafters);
    if (stats) {
      this.figures.setProgress(null);
      this.figures.show(stats, "This reply, live");
    }
  }

  ended({ m, details }) {
    this.transcript.end(m, details);
    this.setWriting(null);
    this.figures.setProgress(null);
    this.figures.show(details.stats, "The last reply");
    const text = this.transcript.messages.get(m)?.reply.source.text ?? "";
    setText(this.$("#announcer"), text ? `Reply: ${text}` : (details.error?.message ?? ""));
  }

  showProgress(message, text, fraction) {
    this.transcript.setProgress(message, text);
    this.figures.setProgress(text, fraction);
  }

  engineChanged(engine) {
    this.modelBar.show(engine);
    this.drawWelcome();
  }

  trainingChanged(job) {
    if (!this.train.show(job)) return;
    this.surroundings.toast("The training is done: its result is in the list of drafters.");
    this.attempt(() => this.modelBar.refresh());
  }

  downloadsChanged(items) {
    const finished = items.filter((item) => item.state === "done").length;
    this.models.showDownloads(items);
    if (finished !== this.finishedDownloads) {
      this.finishedDownloads = finished;
      this.attempt(() => this.refreshModels());
    }
  }

  async refreshModels() {
    await this.modelBar.refresh();
    this.models.showCatalogue(this.modelBar.targets);
    this.drawWelcome();
  }

  drawChat({ conversation, messages, seq }) {
    this.conversation = conversation;
    this.chatFrom = seq;
    this.transcript.draw(messages);
    const last = messages.at(-1);
    this.setWriting(last?.streaming ? last.id : null);
    const replies = messages.filter((message) => message.role === "assistant");
    const drafters = [...new Set(replies.flatMap((reply) => reply.details.drafters ?? []))];
    this.viewBar.setDrafters(drafters);
    this.figures.clear();
    if (replies.length) this.figures.show(replies.at(-1).details.stats, "The last reply");
    history.replaceState(null, "", conversation === null ? "#" : `#chat-${conversation}`);
    this.drawWelcome();
  }

  async open(conversation) {
    this.opening ??= [];
    await this.attempt(async () => {
      const chat = await this.connection.call("open", { conversation });
      const waiting = this.opening;
      this.opening = null;
      this.drawChat(chat);
      for (const [event, number] of waiting) if (number >= chat.seq) this.chatEvent(event);
      this.sidebar.draw(this.sidebar.items);
      this.surroundings.closeDrawers();
      if (conversation === null) this.$("#message-box").focus();
    });
    this.opening = null;
  }

  async send() {
    const box = this.$("#message-box");
    const text = box.value.trim();
    if (!text || this.writing) return;
    this.transcript.scrollToEnd();
    const sent = await this.attempt(async () => {
      const args = { conversation: this.conversation, text };
      const { conversation } = await this.connection.call("send", args);
      if (conversation !== this.conversation) {
        this.conversation = conversation;
        history.replaceState(null, "", `#chat-${conversation}`);
        this.sidebar.draw(this.sidebar.items);
      }
    });
    if (sent) {
      box.value = "";
      fitHeight(box);
    }
  }

  stop() {
    if (this.conversation === null) return;
    this.attempt(() => this.connection.call("stop", { conversation: this.conversation }));
  }

  setWriting(message) {
    this.writing = message;
    this.root.dataset.writing = String(message !== null);
    this.$("#send").hidden = message !== null;
    this.$("#stop").hidden = message === null;
  }

  showFigures(entry) {
    this.viewBar.setDrafters(entry.details.drafters ?? []);
    this.figures.show(entry.details.stats, "The reply you chose");
    this.surroundings.openDrawer("panel");
  }

  async trim(message) {
    const changes = { overflow: "trim" };
    const done = await this.attempt(async () => {
      this.settings.show(await this.connection.call("settings", { changes }));
      await this.connection.call("regenerate", { message });
    });
    if (done) this.surroundings.toast("The oldest messages are left out from now on (Settings).");
  }

  openSettings(field = null) {
    this.$("#settings-dialog").showModal();
    if (field) this.settings.focus(field);
  }

  async openModels(model = null) {
    await this.attempt(() => this.modelBar.refresh());
    this.$("#models-dialog").showModal();
    this.models.showCatalogue(this.modelBar.targets ?? [], model);
    this.models.changeFolders("list");
  }

  openTrain() {
    this.$("#train-dialog").showModal();
    this.attempt(() => this.train.open());
  }

  /** Load a target, and with it a drafter or those that are chosen and fit it. */
  async use(target, drafter = null) {
    this.$("#models-dialog").close();
    this.$("#train-dialog").close();
    this.modelBar.target.setValues([target]);
    if (drafter) this.modelBar.chooseDrafters([drafter]);
    await this.attempt(async () => {
      await this.modelBar.targetChanged();
      await this.modelBar.load();
    });
  }

  drawWelcome() {
    const empty = this.transcript.messages.size === 0;
    const welcome = this.$("#welcome");
    welcome.hidden = !empty;
    if (!empty) return;
    const open = () => this.openModels("starter");
    welcome.replaceChildren(...welcomeParts(this.modelBar.engine, open));
  }
}

function fromHash() {
  const found = /^#chat-(\d+)$/.exec(location.hash);
  return found ? Number(found[1]) : null;
}

function fitHeight(box) {
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight, innerHeight / 3)}px`;
}

export function mount(bridge) {
  const page = new Page(bridge);
  return page.start();
}
