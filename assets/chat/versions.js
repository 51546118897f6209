/* < 2/3 >: which version of a message is shown, and the way to the others. */

import { h } from "../shared/dom.js";

/** Shows itself where there are several. page: { choose(id), which shows another version, wanted(): the
    one that was chosen last and is not drawn yet, or null }. */
export class VersionSwitcher {
  constructor(id, page) {
    this.id = id;
    this.page = page;
    this.versions = [id];
    this.earlier = this.step("‹", "Version before", -1);
    this.later = this.step("›", "Next version", 1);
    this.place = h("span", { class: "version-place" });
    this.element = h(
      "div",
      { class: "versions", role: "group", "aria-label": "Versions", hidden: true },
      ...[this.earlier, this.place, this.later],
    );
  }

  step(sign, label, by) {
    const properties = { type: "button", class: "version-step", title: label, "aria-label": label };
    return h("button", { ...properties, onclick: () => this.go(by) }, sign);
  }

  get at() {
    return this.versions.indexOf(this.id);
  }

  show(versions) {
    this.versions = versions?.includes(this.id) ? versions : [this.id];
    const count = this.versions.length;
    this.element.hidden = count < 2;
    this.place.textContent = `${this.at + 1}/${count}`;
    this.place.setAttribute("aria-label", `Version ${this.at + 1} of ${count}`);
    this.earlier.disabled = this.at === 0;
    this.later.disabled = this.at === count - 1;
  }

  /** True if there is such a version. */
  go(by) {
    const from = this.versions.indexOf(this.page.wanted());
    const wanted = this.versions[(from < 0 ? this.at : from) + by];
    if (wanted === undefined) return false;
    this.page.choose(wanted);
    return true;
  }
}
