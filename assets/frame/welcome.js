/* What stands where a conversation will be. */

import { FIRST_PROMPTS } from "./firstprompts.js";
import { h } from "../shared/dom.js";

const LOADED = "Every token of the reply shows who proposed it and what the target made of it.";

/**
 * engine: what is loaded or being loaded, null while that is not known yet.
 * page: { open(): shows the models there are, send(text) }
 */
export function welcomeParts(engine, page) {
  if (!engine) return [];
  if (engine.loaded) {
    const prompts = FIRST_PROMPTS.map((prompt) => promptButton(prompt, page));
    return [
      h("h1", {}, "What shall we write?"),
      h("p", {}, LOADED),
      h(
        "div",
        { class: "first-prompts", role: "group", "aria-label": "Prompts to try" },
        ...prompts,
      ),
    ];
  }
  const title = h("h1", {}, "Watch a model think ahead");
  if (engine.progress) return [title, h("p", {}, "The model is being loaded.")];
  return [
    title,
    h("p", {}, "Choose a target above and press Load, or download a model first."),
    h("button", { type: "button", class: "button primary", onclick: page.open }, "Choose a model"),
  ];
}

function promptButton({ title, shows, text }, page) {
  return h(
    "button",
    { type: "button", class: "first-prompt", title: text, onclick: () => page.send(text) },
    h("b", {}, title),
    h("span", {}, shows),
  );
}
