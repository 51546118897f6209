/* A stored reply, written again round by round at the speed it had, beside plain decoding of the same
   text. Nothing is run for it: the rounds' times are stored with the reply. */

import { h, setText } from "../shared/dom.js";
import { count, rate, seconds } from "../shared/format.js";
import { KIND, TEXT } from "../shared/wire.js";
import { plainBy, ReplayClock, roundEnds, roundsBy } from "./replayclock.js";

const KIND_CLASS = { a: "accepted", c: "correction", b: "bonus", p: "plain" };
const PACES = [0.25, 1, 4];
const MEAN = "The times of its rounds were not kept: each takes their mean here.";
const NO_PLAIN = "What plain decoding takes was not measured for this reply.";

export class Replay {
  constructor(dialog, root) {
    this.dialog = dialog;
    this.button = h("button", { type: "button", class: "button primary" }, "Play");
    this.slider = h("input", { type: "range", min: "0", step: "1", "aria-label": "Round" });
    this.pace = h("select", { "aria-label": "Speed of the replay" });
    this.pace.append(...PACES.map((pace) => h("option", { value: String(pace) }, `${pace}×`)));
    this.status = h("p", { class: "replay-status" });
    this.note = h("p", { class: "replay-note" });
    this.tracks = h("div", { class: "replay-tracks" });
    const bar = h("div", { class: "replay-bar" }, this.button, this.slider, this.pace);
    root.append(bar, this.status, this.tracks, this.note);
    this.button.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => this.goTo(Number(this.slider.value)));
    this.pace.addEventListener("change", () => this.clock.setPace(Number(this.pace.value)));
    dialog.addEventListener("keydown", (event) => this.key(event));
    dialog.addEventListener("close", () => this.stop());
  }

  open({ reply, thought, details }) {
    const tokens = inOrder(reply.source.tokens, thought?.source.tokens ?? [], details.reasoning);
    const plain = details.payoff?.plain ?? null;
    this.ends = roundEnds(tokens, details);
    this.total = tokens.length;
    this.plain = plain;
    this.last = this.ends.at(-1)?.at ?? 0;
    const end = Math.max(this.last, (plain ?? 0) * tokens.length);
    this.clock = new ReplayClock(end, () => performance.now());
    this.clock.setPace(1);
    this.pace.value = "1";
    this.slider.max = String(this.ends.length);
    this.drafted = new Track("as it was", tokens);
    this.ghost = plain === null ? null : new Track("plain decoding", tokens.map(bare));
    const shown = [this.drafted, this.ghost].filter((track) => track !== null);
    this.tracks.replaceChildren(...shown.map((track) => track.element));
    const notes = [details.rounds ? "" : MEAN, plain === null ? NO_PLAIN : ""];
    setText(this.note, notes.join(" ").trim());
    this.draw();
    this.dialog.showModal();
    this.slider.focus();
    if (!still()) this.toggle();
  }

  toggle() {
    if (this.clock.running) {
      this.stop();
      return;
    }
    if (still()) {
      this.goTo(this.rounds() < this.ends.length ? this.rounds() + 1 : 0);
      return;
    }
    this.clock.play();
    this.step();
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.clock?.pause();
    this.draw();
  }

  step() {
    this.draw();
    if (this.clock.time >= this.clock.end) this.stop();
    else this.frame = requestAnimationFrame(() => this.step());
  }

  rounds() {
    return roundsBy(this.ends, this.clock.time + 1e-9);
  }

  goTo(rounds) {
    const number = Math.min(Math.max(0, rounds), this.ends.length);
    const isEnd = number === this.ends.length && !this.clock.running;
    this.clock.seek(number === 0 ? 0 : isEnd ? this.clock.end : this.ends[number - 1].at);
    this.draw();
  }

  /** Space plays and stops, arrows go by a round; the slider's own keys are these, too. */
  key(event) {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
    const isOther = event.target.closest("select, button, .replay-text");
    if (event.key === " " && !isOther) this.toggle();
    else if (event.key in steps && event.target === this.slider) {
      this.goTo(this.rounds() + steps[event.key]);
    } else return;
    event.preventDefault();
  }

  draw() {
    if (!this.clock) return;
    const { time, running } = this.clock;
    const rounds = this.rounds();
    const written = rounds ? this.ends[rounds - 1].count : 0;
    this.slider.value = String(rounds);
    this.slider.setAttribute("aria-valuetext", `Round ${rounds} of ${this.ends.length}`);
    setText(this.button, still() ? "Next round" : running ? "Pause" : "Play");
    setText(this.status, `Round ${count(rounds)} of ${count(this.ends.length)} · ${seconds(time)}`);
    this.drafted.show(written, Math.min(time, this.last));
    if (this.ghost) {
      const due = plainBy(time, this.plain, this.total);
      this.ghost.show(due, Math.min(time, this.plain * this.total));
    }
  }
}

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** All tokens as they came: what was thought goes back to its place in the reply. */
export function inOrder(answer, thought, reasoning) {
  const from = reasoning?.from ?? 0;
  return [...answer.slice(0, from), ...thought, ...answer.slice(from)];
}

const bare = (token) => token.with(KIND, "p");

/** One text as far as it is there, and how long that took. */
class Track {
  constructor(name, tokens) {
    this.tokens = tokens;
    this.shown = 0;
    this.clock = h("b", { class: "replay-clock" });
    this.text = h("div", { class: "replay-text", tabindex: "0", role: "group" });
    this.text.setAttribute("aria-label", `Text, ${name}`);
    const head = h("header", {}, h("h3", {}, name), this.clock);
    this.element = h("article", { class: "replay-track" }, head, this.text);
  }

  show(number, time) {
    const pace = time > 0 ? ` · ${rate(number / time)} tokens/s` : "";
    setText(this.clock, `${count(number)} tokens · ${seconds(time)}${pace}`);
    if (number === this.shown) return;
    while (this.text.childNodes.length > number) this.text.lastChild.remove();
    const added = this.tokens.slice(this.text.childNodes.length, number);
    this.text.append(...added.map(span));
    this.shown = number;
    this.text.scrollTop = this.text.scrollHeight;
  }
}

const span = (token) => h("span", { class: `token ${KIND_CLASS[token[KIND]]}` }, token[TEXT]);
