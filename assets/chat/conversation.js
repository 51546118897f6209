/* The chat with all that shows its replies: what chat/ is made of, put together. */

import { Advice } from "./advice.js";
import { Almost } from "./almost.js";
import { Branches } from "./branches.js";
import { Chat } from "./chat.js";
import { Compare } from "./compare.js";
import { CopyThread } from "./copythread.js";
import { Drafts } from "./drafts.js";
import { Figures } from "./figures.js";
import { Minimap } from "./minimap.js";
import { Replay } from "./replay.js";
import { InOrder } from "../shared/requests.js";
import { Kept } from "../shared/storage.js";
import { Tooltip } from "./tooltip.js";
import { Transcript } from "./transcript.js";
import { ViewBar } from "./viewbar.js";

export class Conversation {
  /**
   * page: { call, attempt, surroundings, session(), openSettings(field), trim(id), canTrim(),
   * follow(advice), changed(), chosen() }. changed: messages came or went. chosen: another
   * conversation is the current one.
   */
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.edits = new Drafts(new Kept(window, "sessionStorage", "forerun-edits"));
    this.figures = new Figures(this.$("#figures"));
    this.replay = new Replay(this.$("#replay-dialog"), this.$("#replay-body"));
    this.transcript = this.newTranscript();
    this.buildViews();
    this.chat = this.newChat();
    const { chat, edits } = this;
    const { call, attempt, surroundings } = page;
    this.branches = new Branches({ call, attempt, chat, surroundings, edits });
    const choose = (id) => this.branches.select(id);
    this.compare = new Compare(root, { call, attempt, choose });
  }

  $(selector) {
    return this.root.querySelector(selector);
  }

  newTranscript() {
    const { call, attempt, openSettings, trim, canTrim } = this.page;
    const change = (action, told) => this.chat.change(action, told);
    return new Transcript(
      { scroller: this.$("#transcript"), list: this.$("#messages"), toEnd: this.$("#to-end") },
      {
        ...{ edits: this.edits, openSettings, trim, canTrim },
        regenerate: (message) => change("regenerate", { message }),
        goOn: (message) => change("continue", { message }),
        edit: (message, text) => change("edit", { message, text }),
        showFigures: (entry) => this.showFigures(entry),
        replay: (entry) => this.replay.open(entry),
        newChat: () => this.chat.open(null),
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
  buildViews() {
    const { call, attempt, follow } = this.page;
    const { transcript } = this;
    const { scroller, list } = transcript;
    const tokenOf = (element) => transcript.tokenOf(element);
    this.tooltip = new Tooltip(this.$("#tip"), scroller, tokenOf, new CopyThread(transcript));
    this.almost = new Almost(this.$("#almost-dialog"), scroller, {
      placeOf: tokenOf,
      branch: (message, token, ghost) => this.chat.change("branch", { message, token, ghost }),
    });
    this.minimap = new Minimap(this.$("#minimap"), { scroller, list, transcript });
    const views = new InOrder();
    this.viewBar = new ViewBar(this.root, {
      changed: (changes) => views.run(() => attempt(() => call("view", { changes }))),
      viewChanged: (view) => {
        transcript.setView(view);
        this.minimap.request();
      },
    });
    this.advice = new Advice({
      call,
      act: follow,
      offered: new Kept(window, "localStorage", "forerun-drafter-offered"),
      closed: new Kept(window, "sessionStorage", "forerun-advice-closed"),
    });
  }

  newChat() {
    const { root, transcript, figures, viewBar } = this;
    const { call, attempt, session, changed, chosen, surroundings } = this.page;
    return new Chat({
      ...{ root, call, attempt, transcript, figures, viewBar, session },
      drafts: new Drafts(new Kept(window, "localStorage", "forerun-drafts")),
      changed: () => {
        changed();
        this.minimap.request();
      },
      advise: (conversation, entry) => this.advice.consider(conversation, entry),
      chosen: () => {
        chosen();
        surroundings.closeDrawers();
      },
    });
  }

  showFigures(entry) {
    this.viewBar.setDrafters(entry.details.drafters ?? []);
    this.figures.show(entry.details.stats, "The reply you chose", entry.details.payoff);
    this.page.surroundings.openDrawer("panel");
  }
}
