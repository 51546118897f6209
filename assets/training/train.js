/* The Train dialog: start a training, watch it, keep or use what came of it.

   training/ draws what the server says of a training. How one works, and what it may be started
   with, is the server's; loading its result is the caller's. */

import { Curve } from "./curve.js";
import { h, setText } from "../shared/dom.js";
import { bytes, count, seconds, sentence } from "../shared/format.js";
import { Latest, once } from "../shared/requests.js";
import { TorchInstall } from "./torchinstall.js";
import { TrainForm } from "./trainform.js";

const STAGES = {
  generating: "The target answers questions, and what it thinks is written down",
  training: "The drafter learns from it",
  writing: "The result is written",
  checking: "The result is checked against the target",
};
const KIND_NAMES = { medusa: "Medusa heads", eagle3: "EAGLE-3", "early-exit": "Early exit" };

export class Train {
  /** page: { call, ask, toast, use(target, drafter), target() } */
  constructor(root, page) {
    this.page = page;
    this.job = null;
    this.requests = new Latest();
    this.intro = h(
      "p",
      { class: "group-note" },
      "Heads that learn, on this computer and on your kind of text, to guess what the target writes next. Until it is done, training shares the processor with your chats: both get slower.",
    );
    this.torch = new TorchInstall({
      call: page.call,
      installed: () => this.refresh().catch(() => {}), // a toast has told it by then
    });
    this.form = new TrainForm(page);
    this.view = h("section", { class: "train-job", "aria-label": "Training" });
    this.data = h("ul", { class: "catalogue" });
    this.dataPart = h("section", { hidden: true }, h("h3", {}, "Training data on disk"), this.data);
    root.append(this.intro, this.torch.element, this.view, this.form.element, this.dataPart);
    this.buildProgress();
  }

  buildProgress() {
    this.stage = h("p", { class: "train-stage" });
    this.meter = h("i");
    this.figures = h("p", { class: "train-figures" });
    this.chart = h("div", { class: "train-chart" });
    this.curve = new Curve(this.chart, "Held-out hit rate by draft position");
    this.key = h("div", { class: "train-key" });
    this.chart.append(this.key);
  }

  async open() {
    await this.refresh();
  }

  refresh() {
    return this.ask("train_options", {});
  }

  async ask(action, args) {
    const isLatest = this.requests.begin();
    this.setStale(true);
    try {
      const options = await this.page.call(action, args);
      if (isLatest()) this.showOptions(options);
    } finally {
      if (isLatest()) this.setStale(false);
    }
  }

  /** Targets and names that are taken may be others by now: nothing is started from the old ones. */
  setStale(stale) {
    this.form.submit.inert = this.form.target.inert = this.data.inert = stale;
  }

  showOptions(options) {
    this.options = options;
    this.torch.showProblem(options.problem);
    this.form.show(options, this.page.target());
    this.data.replaceChildren(...options.data.map((one) => this.dataRow(one)));
    this.draw();
  }

  dataRow({ name, bytes: size, tokens }) {
    const text = h("span", { class: "row-text" }, h("b", {}, name));
    text.append(h("small", {}, `${count(tokens)} tokens · ${bytes(size)}`));
    return h(
      "li",
      {},
      text,
      button("Delete", () => this.deleteData(name, size)),
    );
  }

  async deleteData(name, size) {
    const question = {
      title: "Delete the training data?",
      text: `${name}: ${bytes(size)}. Heads made from it stay; training more starts anew.`,
      yes: "Delete",
    };
    if (!(await this.page.ask(question))) return;
    await this.ask("train_delete", { name });
  }

  /** job: the server's, null when there is none */
  show(job) {
    const finished = job?.state === "done" && this.job !== null && this.job.state !== "done";
    this.job = job;
    this.draw();
    return finished;
  }

  draw() {
    const { job } = this;
    this.form.element.hidden = job !== null || Boolean(this.options?.problem);
    this.view.hidden = job === null;
    const isRunning = ["running", "stopping"].includes(job?.state);
    this.dataPart.hidden = isRunning || !this.options?.data.length;
    if (job === null) {
      this.drawn = null;
      return;
    }
    const shape = `${job.state} ${job.pid}`;
    if (this.drawn !== shape) {
      this.drawn = shape;
      this.view.replaceChildren(...this.parts(job));
    }
    this.drawFigures(job);
  }

  parts({ state, request, message, card, drafter }) {
    const title = `${KIND_NAMES[request.kind]} for ${request.target}`;
    const parts = [h("h3", {}, title)];
    const step = (label, name, kind = "button") => button(label, () => this.step(name), kind);
    if (state === "running" || state === "stopping") {
      parts.push(this.stage, h("div", { class: "meter" }, this.meter), this.figures, this.chart);
      const label = state === "running" ? "Stop and keep the best" : "Stop at once, keep nothing";
      parts.push(h("div", { class: "train-buttons" }, step(label, "stop")));
      return parts;
    }
    const note = h("p", { class: `train-end ${state}` }, endText(state, message));
    const buttons = h("div", { class: "train-buttons" });
    if (state === "done") {
      const use = () => this.page.use(request.target, drafter);
      buttons.append(button("Use it", use, "button primary"), step("Dismiss", "dismiss"));
      parts.push(note, cardList(card, drafter), this.chart, buttons);
    } else {
      buttons.append(step("Resume", "resume", "button primary"), step("Dismiss", "dismiss"));
      parts.push(note, this.chart, buttons);
    }
    return parts;
  }

  drawFigures({ state, progress, points }) {
    const { stage, done = 0, total = 0 } = progress;
    const stopping = state === "stopping" ? "Stopping: the best so far is kept" : null;
    setText(this.stage, stopping ?? STAGES[stage] ?? "Starting");
    this.meter.style.width = `${total ? Math.min(100, (100 * done) / total) : 0}%`;
    setText(this.figures, figuresText(progress));
    this.chart.hidden = points.length === 0;
    if (points.length > 0) this.drawChart(points);
  }

  drawChart(points) {
    this.curve.draw(points);
    const marks = points
      .at(-1)[1]
      .map((rate, position) =>
        h(
          "span",
          { class: `line-${position % 6}` },
          `${ahead(position)} ${Math.round(100 * rate)}%`,
        ),
      );
    this.key.replaceChildren(h("b", {}, "Right on text it has not seen:"), ...marks);
  }

  step(step) {
    return this.page.call("train_step", { step }).then(() => this.refresh());
  }
}

function figuresText({ stage, done, total, seconds_left: left, loss }) {
  const unit = stage === "generating" ? " tokens" : "";
  const parts = total ? [`${count(done)} of ${count(total)}${unit}`] : [];
  if (left) parts.push(`${seconds(Math.round(left))} left`);
  if (typeof loss === "number") parts.push(`loss ${loss.toFixed(2)}`);
  return parts.join(" · ");
}

const ahead = (position) => (position === 0 ? "next token" : `${position + 1} ahead`);

function button(label, onclick, kind = "button") {
  const act = once(onclick);
  const press = () => act().catch(() => {}); // a toast has told it by then
  return h("button", { type: "button", class: kind, onclick: press }, label);
}

function endText(state, message) {
  if (state === "done") return "Done. It is in the list of drafters for this target.";
  const text = { failed: "Failed", stopped: "Stopped", interrupted: "Interrupted" }[state];
  const rest = message ? `: ${sentence(message)}` : ".";
  return `${text}${rest} What was finished is kept, and Resume goes on from there.`;
}

function cardList(card, drafter) {
  const list = h("dl", { class: "train-card" });
  const add = (name, value) => list.append(h("dt", {}, name), h("dd", {}, value));
  const { heldout, corpus, training, settings, format } = card;
  add("drafter", drafter);
  add("held-out hit rate", heldout.hits.map((rate) => `${(100 * rate).toFixed(0)}%`).join(" / "));
  add("tokens kept a draft", heldout.accepted.toFixed(2));
  add("learned from", `${count(corpus.answer_tokens)} tokens`);
  add("trained for", seconds(Math.round(training.seconds)));
  const size = Object.values(card.bytes).reduce((sum, one) => sum + one, 0);
  add("weights", `${format}, ${bytes(size)}`);
  add("seed", String(settings.seed));
  add("command", card.command);
  return list;
}
