/* One note below the last reply where drafting did not pay in this chat: why, and a button that
   changes it. Closed, it does not come back in this chat; the offer of a drafter comes once. */

import { h } from "../shared/dom.js";
import { Latest } from "../shared/requests.js";
import { whyNot } from "./payoff.js";

const OFFER = "Nothing drafts yet. A drafter can make replies faster, and the text stays the same.";
const FEWEST = 40; // tokens of a reply that is worth a word

export class Advice {
  /** page: { call, act(advice), offered, closed }; the last two as Kept: what was said already. */
  constructor(page) {
    this.page = page;
    this.requests = new Latest();
  }

  /** After a reply, and when a chat is opened. entry: the last message, null where there is none. */
  async consider(conversation, entry) {
    const isLatest = this.requests.begin();
    this.element?.remove();
    if (!entry?.details || conversation === null || !this.isDue(conversation, entry.details))
      return;
    const advice = await this.page.call("advise", { conversation }).catch(() => null);
    if (!advice || !isLatest() || !entry.notes.isConnected) return;
    if (!advice.why && this.page.offered.get()) return;
    if (!advice.why) this.page.offered.set("yes");
    this.element = this.note(advice, conversation);
    entry.notes.append(this.element);
  }

  isDue(conversation, details) {
    if (this.closed().includes(conversation)) return false;
    if (whyNot(details)) return true;
    const isPlain = !details.drafters?.length && !details.payoff;
    return isPlain && details.stats?.emitted >= FEWEST && !this.page.offered.get();
  }

  note(advice, conversation) {
    const text = advice.why ? `Drafting did not pay in this chat. ${advice.why}` : OFFER;
    const act = async () => {
      this.close(conversation);
      await this.page.act(advice);
    };
    return h(
      "div",
      { class: "note advice" },
      h("p", {}, text),
      h("button", { type: "button", class: "button", onclick: act }, labelOf(advice)),
      h(
        "button",
        { type: "button", class: "button", onclick: () => this.close(conversation) },
        "Leave it",
      ),
    );
  }

  close(conversation) {
    this.element?.remove();
    this.page.closed.set(JSON.stringify([...this.closed(), conversation]));
  }

  closed() {
    return JSON.parse(this.page.closed.get() ?? "[]");
  }
}

function labelOf({ step, label, expected }) {
  if (step === "off") return "Draft no more";
  if (step === "download") return `Download ${label}`;
  return expected ? `Use ${label} (${expected.toFixed(1)}× in earlier replies)` : `Try ${label}`;
}
