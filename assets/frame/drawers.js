/* Parts that open over the rest where there is little room: one at a time, the rest at rest.

   Where there is room they stand beside the rest, and opening them does nothing. What opens one is a
   button [data-opens="ID"]; in each is one [data-do="close-drawers"]. */

const PARTS = [".sidebar", ".head", ".transcript", ".composer", ".panel"];
const LAYOUTS = ["(width < 820px)", "(width < 1180px)", "(height < 620px)"];

export class Drawers {
  constructor(root) {
    this.root = root;
    this.opener = null;
    root.addEventListener("click", (event) => this.onClick(event));
    for (const layout of LAYOUTS) {
      matchMedia(layout).addEventListener("change", () => this.close());
    }
    for (const button of root.querySelectorAll("[data-opens]")) {
      button.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-controls", button.dataset.opens);
    }
  }

  get isOpen() {
    return this.root.dataset.drawer !== undefined;
  }

  onClick({ target }) {
    const wanted = target.closest("[data-opens]")?.dataset.opens;
    if (wanted) {
      if (this.root.dataset.drawer === wanted) this.close();
      else this.open(wanted);
    } else if (target.closest("[data-do='close-drawers']")) this.close();
  }

  open(name) {
    this.close();
    this.root.dataset.drawer = name;
    const close = this.root.querySelector(`#${name} .drawer-close`);
    if (getComputedStyle(close).display === "none") {
      delete this.root.dataset.drawer; // it stands beside the rest
      return;
    }
    this.opener = document.activeElement;
    this.setInert(name, true);
    close.focus();
  }

  /** True if one was open. */
  close() {
    if (!this.isOpen) return false;
    this.setInert(this.root.dataset.drawer, false);
    delete this.root.dataset.drawer;
    this.opener?.focus();
    return true;
  }

  setInert(name, inert) {
    const drawer = this.root.querySelector(`#${name}`);
    for (const selector of PARTS) {
      const part = this.root.querySelector(selector);
      if (!part.contains(drawer)) part.inert = inert;
    }
    this.root.querySelector(`[data-opens="${name}"]`).setAttribute("aria-expanded", String(inert));
  }
}
