/* The page: builds its parts, hands server events to them, and user actions to the server.

   The only file that knows every part. Parts are folders by what they are about: chat/, models/,
   measure/, training/, and frame/ around them. None knows another one: what a part needs of
   another it is given here. All may use shared/, which knows none of them. */

import { Advice } from "./chat/advice.js";
import { Branches } from "./chat/branches.js";
import { addressed, Chat } from "./chat/chat.js";
import { Compare } from "./chat/compare.js";
import { ChatSettings } from "./frame/chatsettings.js";
import { Connection } from "./shared/connection.js";
import { dressDialogs } from "./frame/dialogs.js";
import { dressButtons } from "./shared/dom.js";
import { Drafts } from "./chat/drafts.js";
import { Exchange } from "./frame/exchange.js";
import { Figures } from "./chat/figures.js";
import { FocusKeeper } from "./frame/focus.js";
import { guardComposition } from "./shared/keys.js";
import { Lab } from "./measure/lab.js";
import { Log } from "./frame/log.js";
import { ModelBar } from "./models/modelbar.js";
import { Models } from "./models/models.js";
import { learnNames } from "./shared/names.js";
import { InOrder } from "./shared/requests.js";
import { Replay } from "./chat/replay.js";
import { SettingsForm } from "./frame/settings.js";
import { Shortcuts } from "./frame/shortcuts.js";
import { Sidebar } from "./frame/sidebar.js";
import { Kept } from "./shared/storage.js";
import { Surroundings } from "./frame/surroundings.js";
import { Almost } from "./chat/almost.js";
import { CopyThread } from "./chat/copythread.js";
import { Minimap } from "./chat/minimap.js";
import { Tooltip } from "./chat/tooltip.js";
import { Train } from "./training/train.js";
import { Transcript } from "./chat/transcript.js";
import { ViewBar } from "./chat/viewbar.js";
import { welcomeParts } from "./frame/welcome.js";

const PROBLEM_TIME = 60000;

class Page {
  constructor(bridge) {
    this.root = bridge.element.querySelector(".forerun");
    dressButtons(this.root);
    dressDialogs(this.root);
    guardComposition(document);
    const handlers = {
      hello: (hello, asked) => this.hello(hello, asked),
      event: (event, number) => this.event(event, number),
      online: (online) => this.online(online),
      conversation: () => this.chat.conversation,
    };
    const last = new Kept(window, "sessionStorage", "forerun-session");
    this.connection = new Connection(bridge, handlers, last);
    this.buildParts();
    this.listen();
  }

  $(selector) {
    return this.root.querySelector(selector);
  }

  buildParts() {
    const home = matchMedia("(pointer: coarse)").matches ? "#transcript" : "#message-box";
    this.focus = new FocusKeeper(this.root, () => this.$(home)); // no keyboard pops up on phones
    const call = (action, args) =>
      this.connection.call(action, args).finally(() => this.focus.look());
    const loudly = (action, args) => this.loud(() => call(action, args));
    const attempt = (action) => this.attempt(action);
    const toast = (text, action) => this.surroundings.toast(text, action);
    const ask = (question) => this.surroundings.ask(question);
    const use = (target, drafter) => this.use(target, drafter);
    this.surroundings = new Surroundings(this.root);
    const keys = new Kept(window, "localStorage", "forerun-keys");
    const openDrawer = (name) => this.surroundings.openDrawer(name);
    this.shortcuts = new Shortcuts(this.root, { openDrawer }, keys);
    this.buildConversation({ call, attempt });
    this.modelBar = new ModelBar(this.root, {
      call: loudly,
      ask,
      toast,
      openModels: (model) => this.openModels(model),
    });
    this.sidebar = new Sidebar(this.root, {
      call: loudly,
      toast,
      open: (id) => this.chat.open(id),
      current: () => this.chat.conversation,
      kept: new Kept(window, "localStorage", "forerun-folders"),
    });
    this.exchange = new Exchange(this.root, {
      session: () => this.connection.session,
      current: () => this.chat.conversation,
    });
    this.settings = new SettingsForm(this.$("#settings-form"), {
      call,
      changed: (values) => {
        this.modelBar.settingsChanged(values);
        this.chat.meter.refresh();
      },
    });
    this.chatSettings = new ChatSettings(this.root, {
      call,
      ask,
      session: () => this.connection.session,
      current: () => this.chat.conversation,
      begin: (id) => this.chat.adopt(id),
    });
    this.log = new Log(this.root, { call });
    const target = () => this.modelBar.pair().target;
    this.train = new Train(this.$("#train-body"), { call: loudly, ask, use, target });
    this.lab = new Lab(this.root, {
      call,
      attempt,
      modelBar: this.modelBar,
      settings: this.settings,
    });
    const refresh = () => this.attempt(() => this.refreshModels());
    this.models = new Models(this.$("#models-body"), { call, toast, use, refresh });
  }

  /** The chat, and what shows its replies. */
  buildConversation({ call, attempt }) {
    this.buildTranscript({ call, attempt });
    this.buildViews({ call, attempt });
    const { root, transcript, figures, viewBar } = this;
    this.chat = new Chat({
      ...{ root, call, attempt, transcript, figures, viewBar },
      session: () => this.connection.session,
      drafts: new Drafts(new Kept(window, "localStorage", "forerun-drafts")),
      changed: () => {
        this.drawWelcome();
        this.minimap.request();
      },
      advise: (conversation, entry) => this.advice.consider(conversation, entry),
      chosen: () => {
        this.sidebar.markCurrent();
        this.surroundings.closeDrawers();
      },
    });
    const { chat, surroundings } = this;
    this.branches = new Branches({ call, attempt, chat, surroundings });
    const choose = (id) => this.branches.select(id);
    this.compare = new Compare(this.root, { call, attempt, choose });
  }

  buildTranscript({ call, attempt }) {
    this.figures = new Figures(this.$("#figures"));
    this.replay = new Replay(this.$("#replay-dialog"), this.$("#replay-body"));
    this.transcript = new Transcript(
      { scroller: this.$("#transcript"), list: this.$("#messages"), toEnd: this.$("#to-end") },
      {
        regenerate: (id) => this.chat.change("regenerate", { message: id }),
        goOn: (id) => this.chat.change("continue", { message: id }),
        edit: (id, text) => this.chat.change("edit", { message: id, text }),
        showFigures: (entry) => this.showFigures(entry),
        replay: (entry) => this.replay.open(entry),
        newChat: () => this.chat.open(null),
        openSettings: (field) => this.openSettings(field),
        trim: (id) => this.trim(id),
        canTrim: () => this.modelBar.settings.overflow !== "trim",
        saveAgain: () => attempt(() => call("save_again")),
        editReply: (entry) => this.branches.edit(entry),
        select: (id) => this.branches.select(id),
        fork: (id) => this.branches.fork(id),
        compare: (id) => this.compare.open(id),
        remove: (id) => this.branches.remove(id),
        answerNow: () => this.chat.answerNow(),
      },
    );
  }

  /** What shows the drafting of the messages. */
  buildViews({ call, attempt }) {
    const tokenOf = (element) => this.transcript.tokenOf(element);
    const area = this.$("#transcript");
    const thread = new CopyThread(this.transcript);
    this.tooltip = new Tooltip(this.$("#tip"), area, tokenOf, thread);
    this.almost = new Almost(this.$("#almost-dialog"), area, {
      placeOf: tokenOf,
      branch: (message, token, ghost) => this.chat.change("branch", { message, token, ghost }),
    });
    const { scroller, list } = this.transcript;
    this.minimap = new Minimap(this.$("#minimap"), {
      scroller,
      list,
      transcript: this.transcript,
    });
    const views = new InOrder();
    this.viewBar = new ViewBar(this.root, {
      changed: (changes) => views.run(() => attempt(() => call("view", { changes }))),
      viewChanged: (view) => {
        this.transcript.setView(view);
        this.minimap.request();
      },
    });
    this.advice = new Advice({
      call,
      act: (advice) => this.follow(advice),
      offered: new Kept(window, "localStorage", "forerun-drafter-offered"),
      closed: new Kept(window, "sessionStorage", "forerun-advice-closed"),
    });
  }

  listen() {
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.$("dialog[open], :popover-open")) return;
      if (this.surroundings.closeDrawers()) return;
      if (this.chat.writing) this.chat.stop();
      else if (event.target.id === "message-box") this.$("#transcript").focus();
    });
    this.$("#new-chat").addEventListener("click", () => this.chat.open(null));
    this.$("#open-settings").addEventListener("click", () => this.openSettings());
    this.$("#open-chat-settings").addEventListener("click", () => this.chatSettings.open());
    this.$("#open-models").addEventListener("click", () => this.openModels());
    this.$("#open-train").addEventListener("click", () => this.openTrain());
    this.$("#open-exchange").addEventListener("click", () => this.exchange.open());
    this.$("#open-log").addEventListener("click", () => this.log.open());
    this.$("#open-lab").addEventListener("click", () => this.lab.open());
    addEventListener("hashchange", () => {
      if (this.chat.conversation !== addressed()) this.chat.open(addressed());
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
    return this.connection.start();
  }

  online(online) {
    this.surroundings.showOnline(online);
    if (online) this.chat.makeSure();
  }

  hello(hello, asked) {
    this.root.hidden = false;
    this.settings.build(hello.fields, hello.preferences.settings);
    this.chatSettings.build(hello.fields);
    this.settings.fit(hello.engine.loaded?.reasoning);
    this.viewBar.show(hello.preferences.view);
    this.chat.greet(hello.chat, asked);
    this.sidebar.changed(hello.conversations);
    this.models.showDownloads(hello.downloads);
    this.modelBar.start(hello.engine, hello.preferences);
    this.drawWelcome();
    this.train.show(hello.training.job);
    this.train.torch.show(hello.torch);
    this.lab.measure.show(hello.lab);
    if (hello.problem) this.surroundings.toast(hello.problem, null, PROBLEM_TIME);
    this.root.dataset.ready = "true";
  }

  event(event, number) {
    this.focus.look();
    if (this.chat.takes(event)) this.chat.event(event, number);
    else if (event.k === "conversations") this.sidebar.changed(event);
    else if (event.k === "names") learnNames(event.names);
    else if (event.k === "engine") this.engineChanged(event);
    else if (event.k === "lab") this.lab.measure.show(event);
    else if (event.k === "downloads") this.downloadsChanged(event.items);
    else if (event.k === "training") this.trainingChanged(event.job);
    else if (event.k === "torch") this.train.torch.show(event);
  }

  engineChanged(engine) {
    this.modelBar.show(engine);
    this.settings.fit(engine.loaded?.reasoning);
    this.chat.meter.refresh();
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

  showFigures(entry) {
    this.viewBar.setDrafters(entry.details.drafters ?? []);
    this.figures.show(entry.details.stats, "The reply you chose", entry.details.payoff);
    this.surroundings.openDrawer("panel");
  }

  /** Do what an advice says, and tell what was done. */
  async follow({ step, value, label, target }) {
    if (step === "download") {
      await this.openModels(value);
    } else if (step === "off") {
      const done = await this.attempt(() => this.settings.change({ speculate: "off" }));
      if (done) this.surroundings.toast("Replies are written without drafts now (Settings).");
    } else {
      this.surroundings.toast(`Loading the target with ${label}.`);
      await this.use(target, value);
    }
  }

  async trim(message) {
    const changes = { overflow: "trim" };
    const done = await this.attempt(async () => {
      await this.settings.change(changes);
    });
    if (done && (await this.chat.change("regenerate", { message })))
      this.surroundings.toast("The oldest messages are left out from now on (Settings).");
  }

  openSettings(field = null) {
    this.$("#settings-dialog").showModal();
    if (field) this.settings.focus(field);
  }

  async openModels(model = null) {
    const dialog = this.$("#models-dialog");
    if (!dialog.open) dialog.showModal();
    this.models.showCatalogue(this.modelBar.targets, model);
    this.models.changeFolders("list");
    await this.attempt(() => this.modelBar.refresh());
    this.models.showCatalogue(this.modelBar.targets, model);
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
    if (drafter) this.modelBar.choose([{ value: drafter }]);
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
    const engine = this.modelBar.begun ? this.modelBar.engine : null;
    const parts = welcomeParts(engine, {
      open: () => this.openModels("starter"),
      send: (text) => this.chat.send(text),
    });
    welcome.replaceChildren(...parts);
  }
}

export function mount(bridge) {
  const page = new Page(bridge);
  return page.start();
}
