/* The foot of a reply: its figures, and what can be done with it. */

import { copyText, h, iconButton } from "../shared/dom.js";
import { count, length, rate, seconds, share } from "../shared/format.js";
import { menuButton } from "./messagemenu.js";
import { footerTextOf } from "./payoff.js";
import { FINISHES } from "./words.js";

const ENDED_EARLY = new Set(["length", "context", "cancelled", "interrupted", "failed"]);

const NOT_EXACT =
  "Typical acceptance kept tokens that the target alone would have drawn more rarely; " +
  "choose the acceptance Exact in the settings for the target's own distribution";

const IDENTICAL =
  "Every token was computed with passes that agree bit for bit, so the text does not depend on " +
  "drafts";

/** actions: { goOn(id), showFigures(entry), replay(entry), regenerate(id), editReply(entry), select(id), fork(id), compare(id),
    remove(id) } */
export function footerOf(entry, actions) {
  const text = entry.reply.source.text;
  const figures = h("div", { class: "reply-figures" });
  for (const [value, title] of figuresOf(entry.details)) {
    figures.append(h("span", { title }, value));
  }
  const again = iconButton("redo", "Write this reply again", () => actions.regenerate(entry.id));
  const copy = iconButton("copy", "Copy", (event) => copyText(text, event.currentTarget));
  again.dataset.does = "regenerate"; // names for the keys that press them
  copy.dataset.does = "copy";
  const buttons = h(
    "div",
    { class: "message-buttons" },
    entry.switcher.element,
    endedEarly(entry) ? continueButton(entry, actions) : null,
    iconButton("chart", "Show the figures of this reply", () => actions.showFigures(entry)),
    entry.isFirst ? null : again, // a greeting answers nothing
    copy,
    menuButton(() => [
      ["Replay how it was written", () => actions.replay(entry)],
      ["Edit this reply", () => actions.editReply(entry)],
      entry.switcher.versions.length > 1 && [
        "Compare the versions",
        () => actions.compare(entry.id),
      ],
      ["Fork into a new chat", () => actions.fork(entry.id)],
      ["Delete", () => actions.remove(entry.id)],
    ]),
  );
  return [figures, buttons];
}

/** Its tokens are known, and nothing but a limit or a hand ended it. */
function endedEarly({ hasIds, details }) {
  return Boolean(hasIds) && ENDED_EARLY.has(details.finish);
}

/** Hidden where messages follow. */
function continueButton(entry, actions) {
  const title = "Write on from where this reply ended";
  const onclick = () => actions.goOn(entry.id);
  return h(
    "button",
    { type: "button", class: "button reply-continue", title, onclick },
    "Continue",
  );
}

/** Of how many tokens there are, how fast they came and how many drafts were kept. */
function speedOf(stats) {
  const figures = [[`${count(stats.emitted)} tokens`, `in ${count(stats.rounds)} rounds`]];
  if (stats.tokens_per_second !== null) {
    const time = `${seconds(stats.decode_seconds)} of decoding`;
    figures.push([`${rate(stats.tokens_per_second)} tokens/s`, time]);
  }
  if (stats.proposed) {
    const drafts = `${count(stats.accepted)} of ${count(stats.proposed)} drafts accepted`;
    figures.push([`${share(stats.accepted, stats.proposed)} accepted`, drafts]);
    const mean = "mean accepted length: tokens per pass of the target";
    figures.push([`${length(stats.mean_accepted_length)} per round`, mean]);
  }
  return figures;
}

/** [shown, explained] pairs. */
function figuresOf(details) {
  const { stats, finish, seed, prompt_tokens: prompt, reused_prompt_tokens: reused } = details;
  const began = Boolean(stats?.rounds);
  const figures = began ? [...footerTextOf(details.payoff), ...speedOf(stats)] : [];
  if (began && prompt !== undefined) {
    const kept = reused ? `, ${count(reused)} reused` : "";
    const title = `Prompt of ${count(prompt)} tokens; ${count(reused)} were in memory already`;
    figures.push([`prompt ${count(prompt)}${kept}`, title]);
  }
  if (began && seed !== undefined) {
    const title =
      "Set this seed to get the reply again; with speculation on auto, set the coupling to " +
      "Same text per seed as well";
    figures.push([`seed ${seed}`, title]);
  }
  if (details.exact === false) figures.push(["text changed by typical acceptance", NOT_EXACT]);
  if (details.identical) figures.push(["identical with and without drafting", IDENTICAL]);
  if (finish) figures.push([FINISHES[finish] ?? finish, `model ${details.model}`]);
  return figures;
}
