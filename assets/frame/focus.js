/* Where the focus goes when what had it is gone: never to the page as a whole, where a keyboard has
   to begin anew and a screen reader says nothing.

   What has the focus may be removed, hidden or turned off by its own click, by an answer or by an
   event. After each of these `look` is called. The focus then goes to what stands in that place now:
   the next row of a list, another button of the same form; else to the message box. */

const FOCUSABLE =
  "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), " +
  "textarea:not(:disabled), summary, [tabindex='0']";
const LEVELS = 8;

export class FocusKeeper {
  /** home(): what gets the focus if nothing is left near it. */
  constructor(root, home) {
    this.root = root;
    this.home = home;
    this.last = null;
    this.trail = [];
    this.waiting = false;
    root.addEventListener("focusin", ({ target }) => this.remember(target));
    for (const act of ["click", "keyup", "close", "focusout"]) {
      root.addEventListener(act, () => this.look(), true);
    }
  }

  /** The element, and which of the focusable ones it is in each part around it. */
  remember(element) {
    this.last = element;
    this.trail = [];
    let part = element.parentElement;
    for (let level = 0; level < LEVELS && part && part !== this.root; level += 1) {
      this.trail.push([part, focusables(part).indexOf(element)]);
      if (part.matches("dialog, .transcript, .composer, .sidebar, .head, .panel")) break;
      part = part.parentElement;
    }
  }

  /** Once all has happened that this moment brings. */
  look() {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => {
      this.waiting = false;
      this.mend();
    });
  }

  mend() {
    const { activeElement: now } = document;
    if (!this.last || (now && now !== document.body && isThere(now))) return;
    if (isUsable(this.last)) return; // it was left on purpose, by a click beside it
    const place = this.near() ?? this.inDialog() ?? this.home();
    place.focus({ preventScroll: true });
  }

  /** While a dialog is open nothing outside it can have the focus. */
  inDialog() {
    const dialog = [...this.root.querySelectorAll("dialog[open]")].at(-1);
    return dialog && focusables(dialog).find(isUsable);
  }

  near() {
    for (const [part, index] of this.trail) {
      if (part.matches(".messages, .transcript, .composer *")) return null;
      if (!isUsable(part)) continue;
      const left = focusables(part).filter(isUsable);
      if (left.length) return left[Math.min(index, left.length - 1)];
    }
    return null;
  }
}

const focusables = (part) => [...part.querySelectorAll(FOCUSABLE)];

/** As far as can be told without asking for styles, which many events a second should not. */
const isThere = (element) =>
  element.isConnected &&
  !element.disabled &&
  !element.closest("[hidden], [inert], dialog:not([open])");

/** Can be seen and reached. */
const isUsable = (element) =>
  isThere(element) && element.checkVisibility({ visibilityProperty: true });
