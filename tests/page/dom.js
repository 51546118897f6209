/* A document for tests without a browser. Layout, dialogs and observers are scripted. */

import { parseHTML } from "linkedom";
import { readFileSync } from "node:fs";

const SHELL = new URL("../../assets/shell.html", import.meta.url);

/** The page's own markup in a fresh document; its globals stand until the next call. */
export function newPage() {
  const { window, document } = parseHTML("<html><body></body></html>");
  document.body.innerHTML = readFileSync(SHELL, "utf-8"); // eslint-disable-line no-restricted-properties
  Object.assign(globalThis, {
    document,
    window,
    DOMParser: window.DOMParser,
    innerHeight: 900,
    location: { hash: "" },
    history: { replaceState: (state, title, hash) => (location.hash = hash === "#" ? "" : hash) },
    requestAnimationFrame: (step) => setTimeout(step),
    ResizeObserver: class {
      observe() {}
    },
  });
  window.HTMLElement.prototype.scrollIntoView = () => {};
  return document.querySelector(".forerun");
}

export function press(element, key, more = {}) {
  const event = new window.Event("keydown", { bubbles: true, cancelable: true });
  const held = { shiftKey: false, ctrlKey: false, metaKey: false, altKey: false };
  Object.assign(event, { key, ...held, repeat: false, isComposing: false, keyCode: 0, ...more });
  element.dispatchEvent(event);
  return event;
}

export function type(box, text) {
  box.value = text;
  box.dispatchEvent(new window.Event("input", { bubbles: true }));
}

/** Lets everything go on that waits for nothing but its turn. */
export const settle = () => new Promise((resolve) => setTimeout(resolve));
