/* What trains is not installed: why, the button that installs it, and how far that is. */

import { h, setText } from "../shared/dom.js";
import { bytes, sentence } from "../shared/format.js";
import { once } from "../shared/requests.js";

const SIZE =
  "pip downloads it, with the settings it has on this computer: some hundred megabytes, with the libraries of a graphics card some gigabytes.";
const WRITING = "Installing collected packages";

export class TorchInstall {
  /** page: { call, installed() } */
  constructor(page) {
    this.page = page;
    this.state = { state: "idle" };
    this.problem = h("p", { class: "train-problem", role: "alert" });
    this.note = h("p", { class: "group-note" }, SIZE);
    this.failure = h("p", { class: "train-problem", role: "alert", hidden: true });
    this.meter = h("i");
    this.figures = h("p", { class: "train-figures" });
    this.line = h("p", { class: "install-line" });
    const bar = h("div", { class: "meter" }, this.meter);
    this.progress = h("div", { hidden: true }, bar, this.figures, this.line);
    this.install = this.button("Install torch", "install", "button primary");
    this.cancel = this.button("Cancel", "cancel", "button");
    this.element = h("section", {
      class: "torch-install",
      "aria-label": "Installing torch",
      hidden: true,
    });
    const buttons = h("div", { class: "train-buttons" }, this.install, this.cancel);
    this.element.append(this.problem, this.note, this.failure, this.progress, buttons);
  }

  button(label, step, kind) {
    const act = once(() => this.page.call("torch", { step }));
    const press = () => act().catch(() => {}); // a toast has told it by then
    return h("button", { type: "button", class: kind, onclick: press }, label);
  }

  /** problem: why nothing can be trained, "" if it can. */
  showProblem(problem) {
    this.element.hidden = !problem;
    this.problem.replaceChildren(...withCode(problem));
  }

  /** state: the server's. */
  show(state) {
    const finished = state.state === "done" && this.state.state === "running";
    this.state = state;
    this.draw();
    if (finished) this.page.installed();
  }

  draw() {
    const { state, text = "", done = 0, announced = 0, message = "" } = this.state;
    const running = state === "running";
    this.install.hidden = running;
    this.cancel.hidden = !running || text.startsWith(WRITING);
    this.progress.hidden = !running;
    this.failure.hidden = state !== "failed";
    setText(this.failure, message ? `It could not be installed: ${sentence(message)}` : "");
    const part = announced ? Math.min(1, done / announced) : 0;
    this.meter.style.width = `${100 * part}%`;
    const named = `${bytes(done)} of the ${bytes(announced)} that pip has named so far`;
    setText(this.figures, announced ? named : "Starting");
    setText(this.line, text);
  }
}

/** Text with `code` in back quotes as elements. */
function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}
