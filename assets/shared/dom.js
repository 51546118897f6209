/* Small helpers to build elements. Text always goes in as text, never as HTML.

   shared/ is what several parts of the page use: elements, numbers as text, requests, the line to
   the server. It imports nothing from outside, and knows of no part. */

const SVG = "http://www.w3.org/2000/svg";

/** Build an element: h("button", { class: "x", onclick }, "text", child). */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const PATHS = {
  close: "M6 6l12 12M18 6L6 18",
  clip: "M20 11l-8 8a5 5 0 0 1-7-7l9-9a3.3 3.3 0 0 1 5 5l-9 9a1.7 1.7 0 0 1-2.500-2.500l8-8",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  chart: "M5 20V11M12 20V4M19 20v-6",
  eye: "M3 12s3-6 9-6 9 6 9 6-3 6-9 6-9-6-9-6zM12 9.5a2.5 2.5 0 1 0 .01 0",
  keys: "M3 7h18v10H3zM7 10.5h.01M11 10.5h.01M15 10.5h.01M8 14h8",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  train: "M4 19l5-6 4 3 7-10M15 6h5v5",
  lab: "M9 4h6M10 4v6L5 19h14l-5-9V4M8 14h8",
  exchange: "M7 4v13M3 8l4-4 4 4M17 20V7M13 16l4 4 4-4",
  log: "M5 6h14M5 11h14M5 16h8",
  theme: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 18v.5",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  down: "M12 5v14M6 13l6 6 6-6",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 13l4 4L19 7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  play: "M8 5l11 7-11 7z",
  redo: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  unpin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7M4 4l16 16",
  folder: "M3 7h6l2 2h10v10H3z",
  persona: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 20c1-4 4-6 8-6s7 2 8 6",
  chevron: "M6 9l6 6 6-6",
  more: "M4 12h2M11 12h2M18 12h2",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button that shows an icon and keeps its name for screen readers and as a hint. */
export function iconButton(name, label, onclick) {
  const button = h("button", { type: "button", class: "icon-button", title: label, onclick });
  button.append(icon(name), h("span", { class: "visually-hidden" }, label));
  return button;
}

/** Put icons into the buttons of the static page that ask for one. */
export function dressButtons(root) {
  for (const button of root.querySelectorAll("[data-icon]")) {
    const label = button.textContent.trim();
    const hidden = button.classList.contains("icon-button");
    const text = h("span", { class: hidden ? "visually-hidden" : "label" }, label);
    if (hidden) button.title = label;
    button.replaceChildren(icon(button.dataset.icon), text);
  }
}

/** Replace children only if the text differs: keeps selections and avoids layout work. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Copy text and let the button say so for a moment. */
export async function copyText(text, button) {
  const copied = await writeText(text, button);
  button.classList.toggle("copied", copied);
  button.title = copied ? "Copied" : "The browser does not let this page copy";
  setTimeout(() => {
    button.classList.remove("copied");
    button.title = "Copy";
  }, 1500);
}

/** Browsers have no clipboard for a page that comes over plain http from another machine. */
async function writeText(text, button) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // refused: try as without one
  }
  return copySelected(text, button.closest("dialog") ?? document.body);
}

/** The old way: text that is selected somewhere on the page, for as long as copying takes. */
function copySelected(text, parent) {
  const focused = document.activeElement;
  const selection = getSelection();
  const ranges = Array.from({ length: selection.rangeCount }, (_, at) => selection.getRangeAt(at));
  const box = h("textarea", { class: "copied-text", readonly: true, "aria-hidden": "true" });
  box.value = text;
  parent.append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  focused?.focus({ preventScroll: true });
  selection.removeAllRanges();
  for (const range of ranges) selection.addRange(range);
  return copied;
}
