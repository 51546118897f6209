/* The less used things that can be done with a message, behind one button. */

import { h, iconButton } from "../shared/dom.js";

const GAP = 4;

/** items: [label, run] pairs, or null where one is not possible now; asked when it is opened. */
export function menuButton(items) {
  const button = iconButton("more", "More", () => open(button, items()));
  button.setAttribute("aria-haspopup", "menu");
  return button;
}

function open(button, items) {
  const menu = h("div", { class: "message-menu", role: "menu", popover: "auto" });
  for (const [label, run] of items.filter(Boolean)) {
    const act = () => {
      menu.hidePopover();
      run();
    };
    const item = { type: "button", role: "menuitem", tabindex: "-1", onclick: act };
    menu.append(h("button", item, label));
  }
  menu.addEventListener("keydown", (event) => walk(menu, event));
  menu.addEventListener("toggle", (event) => {
    button.setAttribute("aria-expanded", String(event.newState === "open"));
    if (event.newState !== "closed") return;
    const leaves =
      menu.contains(document.activeElement) || document.activeElement === document.body;
    if (leaves && button.isConnected) button.focus();
    menu.remove();
  });
  button.after(menu);
  menu.showPopover();
  place(menu, button.getBoundingClientRect());
  menu.firstElementChild?.focus();
}

/** Below the button, or above it where there is no room. */
function place(menu, at) {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + GAP + height <= innerHeight;
  menu.style.top = `${Math.max(GAP, below ? at.bottom + GAP : at.top - GAP - height)}px`;
  menu.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - width - GAP))}px`;
}

function walk(menu, event) {
  const items = [...menu.children];
  const at = items.indexOf(document.activeElement);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
  if (!(event.key in steps)) return;
  event.preventDefault();
  items.at(steps[event.key] % items.length).focus();
}
