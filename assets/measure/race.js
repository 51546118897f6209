/* The race: one prompt, plain and speculative, replayed side by side on one clock. */

import { h, setText } from "../shared/dom.js";
import { length, percent, rate, sentence, share } from "../shared/format.js";
import { Latest, once, tell } from "../shared/requests.js";
import { KIND, TEXT } from "../shared/wire.js";

const KIND_CLASS = { a: "accepted", c: "correction", b: "bonus", p: "plain" };
const BUSY = new Set(["running", "stopping"]);
const EXAMPLE = "Write a Python function that merges two sorted lists, and explain it.";

export class Race {
  /** page: { call, lastPrompt() } */
  constructor(root, page) {
    this.page = page;
    this.requests = new Latest();
    const begin = once(() => this.ask("race_start", { text: this.prompt.value }));
    this.prompt = h("textarea", { id: "race-prompt", rows: "2" });
    this.start = h("button", { type: "submit", class: "button primary" }, "Start the race");
    this.again = h("button", { type: "button", class: "button", hidden: true }, "Replay");
    this.stop = h("button", { type: "button", class: "button", hidden: true }, "Stop");
    this.pace = h(
      "select",
      { id: "race-pace", "aria-label": "Speed of the replay" },
      ...[1, 2, 4].map((factor) => h("option", { value: String(factor) }, `${factor}× speed`)),
    );
    this.status = h("p", { class: "race-status", role: "status" });
    this.problem = h("p", { class: "field-error", role: "alert" });
    this.tracks = h("div", { class: "race-tracks" });
    const form = h(
      "form",
      { class: "race-form" },
      h("label", { for: "race-prompt" }, "The same prompt for both, with what is loaded"),
      this.prompt,
      h("div", { class: "lab-buttons" }, this.start, this.stop, this.again, this.pace),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      begin();
    });
    this.stop.addEventListener("click", () => this.ask("race_stop"));
    this.again.addEventListener("click", () => this.replay());
    this.pace.addEventListener("change", () => this.restartClock());
    root.append(form, this.problem, this.status, this.tracks);
    this.runners = [];
    this.state = { state: "idle", tracks: [] };
  }

  open() {
    if (!this.prompt.value) this.prompt.value = this.page.lastPrompt() ?? EXAMPLE;
  }

  ask(action, args = {}) {
    const draw = (problem) => setText(this.problem, problem && sentence(problem));
    return tell(this.requests, () => this.page.call(action, args), draw);
  }

  /** An event of the server, or its state when the page opens: then nothing is replayed yet. */
  show(state, replay = true) {
    this.state = state;
    const running = BUSY.has(state.state);
    this.start.hidden = running;
    this.stop.hidden = !running;
    this.stop.disabled = state.state === "stopping";
    this.again.hidden = running || !state.tracks.length;
    this.pace.hidden = this.again.hidden;
    setText(this.problem, state.error ? sentence(state.error) : "");
    if (running) {
      this.halt();
      this.tracks.replaceChildren();
      setText(this.status, `Running: ${state.doing}. The race is shown when both are done.`);
    } else if (state.tracks.length && replay) this.replay();
    else if (state.tracks.length) this.build();
    else setText(this.status, state.state === "stopped" ? "Stopped." : "");
  }

  build() {
    this.runners = this.state.tracks.map((track) => new Runner(track));
    this.tracks.replaceChildren(...this.runners.map((runner) => runner.element));
  }

  replay() {
    this.halt();
    this.build();
    setText(this.status, "");
    this.shown = 0;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.advance(Infinity);
      return;
    }
    this.restartClock();
  }

  /** From where the replay stands, at the chosen speed. */
  restartClock() {
    this.halt();
    if (this.shown === Infinity || !this.runners.length) return;
    const before = this.shown ?? 0;
    const pace = Number(this.pace.value);
    let begun = null;
    const step = (now) => {
      begun ??= now;
      this.frame = requestAnimationFrame(step);
      this.advance(before + (pace * (now - begun)) / 1000);
    };
    this.frame = requestAnimationFrame(step);
  }

  advance(clock) {
    this.shown = clock;
    const done = this.runners.map((runner) => runner.advance(clock));
    if (done.every(Boolean)) {
      this.halt();
      this.shown = Infinity;
      this.tell();
    }
  }

  halt() {
    cancelAnimationFrame(this.frame);
  }

  tell() {
    const { same_text: same } = this.state;
    const text = same
      ? "Both wrote the same text."
      : "The texts differ where two tokens are nearly equally likely.";
    setText(this.status, `${verdictOf(this.state)} ${text}`);
  }
}

/** How much faster it was, beside what plain decoding differed from itself. */
function verdictOf({ speedup, plain_difference: difference, stands_out: standsOut }) {
  if (speedup === null) return "Nothing was written, so there is no speed to compare.";
  const noise = `plain decoding's own two runs differed by ${percent(difference)}`;
  const faster = `Writing was ${speedup.toFixed(2)} times as fast with drafts`;
  return standsOut
    ? `${faster}; ${noise}.`
    : `${faster}, which says nothing here: ${noise}, and one prompt cannot tell such a difference from noise.`;
}

/** One track: its text so far, and a clock that stops when it is done. */
class Runner {
  constructor(track) {
    this.track = track;
    this.next = 0;
    this.count = 0;
    this.end = track.steps.at(-1)?.[0] ?? track.prefill_seconds;
    this.clock = h("b", { class: "race-clock" }, "0.0 s");
    this.figures = h("small", {}, "reading the prompt");
    this.meter = h("i");
    this.text = h("div", { class: "race-text", tabindex: "0" });
    this.text.setAttribute("aria-label", `Text of ${track.name}`);
    this.element = h(
      "article",
      { class: "race-track" },
      h("header", {}, h("h3", {}, track.name), this.clock),
      h("div", { class: "meter" }, this.meter),
      this.figures,
      this.text,
    );
  }

  /** Shows what was there at this time; true once everything is. */
  advance(clock) {
    const { steps } = this.track;
    const added = [];
    for (; this.next < steps.length && steps[this.next][0] <= clock; this.next += 1) {
      for (const token of steps[this.next][1]) {
        added.push(h("span", { class: `token ${KIND_CLASS[token[KIND]]}` }, token[TEXT]));
        this.count += 1;
      }
    }
    if (added.length) {
      this.text.append(...added);
      this.text.scrollTop = this.text.scrollHeight;
    }
    const now = Math.min(clock, this.end);
    setText(this.clock, `${now.toFixed(1)} s`);
    this.meter.style.width = `${steps.length ? (100 * this.next) / steps.length : 100}%`;
    const done = this.next === steps.length;
    if (done) this.element.dataset.done = "true";
    if (done || this.count) setText(this.figures, this.says(done, now));
    return done;
  }

  says(done, now) {
    const { stats, prefill_seconds: prefill } = this.track;
    if (!done)
      return `${this.count} tokens · ${rate(this.count / Math.max(now - prefill, 0.01))}/s`;
    const parts = [`${this.count} tokens`, `${rate(stats.tokens_per_second)}/s`];
    if (stats.proposed) {
      parts.push(`${share(stats.accepted, stats.proposed)} accepted`);
      parts.push(`${length(stats.mean_accepted_length)} tokens a round`);
    }
    return parts.join(" · ");
  }
}
