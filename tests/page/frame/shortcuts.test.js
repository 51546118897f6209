/* Keys: when they act, what they are called on which system, and where the focus goes. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Shortcuts, SHORTCUTS } from "../../../assets/frame/shortcuts.js";
import { newPage, press } from "../dom.js";

let root, pressed, store, drawers;

const kept = () => ({ get: () => store, set: (value) => (store = value) });
const shortcuts = (platform = "Linux x86_64") =>
  new Shortcuts(root, { openDrawer: (name) => drawers.push(name) }, kept(), platform);

beforeEach(() => {
  root = newPage();
  pressed = [];
  store = null;
  drawers = [];
  root.addEventListener("click", ({ target }) => {
    const id = target.closest("button")?.id;
    if (id && id !== "open-shortcuts") pressed.push(id);
  });
});

test("a letter presses its button outside of fields only", () => {
  shortcuts();
  press(root.querySelector("#transcript"), "n");
  assert.deepEqual(pressed, ["new-chat"]);
  for (const field of ["#message-box", "#conversation-search"]) {
    press(root.querySelector(field), "n");
  }
  assert.deepEqual(pressed, ["new-chat"]);
});

test("with other keys held down it is the browser's", () => {
  shortcuts();
  const page = root.querySelector("#transcript");
  for (const held of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }]) {
    const event = press(page, "n", held);
    assert.equal(event.defaultPrevented, false);
  }
  press(page, "n", { repeat: true });
  assert.deepEqual(pressed, []);
});

test("the stop key is held with Ctrl, on a Mac with ⌘, also while one types", () => {
  root.querySelector("#stop").hidden = false;
  const keys = shortcuts("MacIntel");
  const box = root.querySelector("#message-box");
  press(box, ".", { ctrlKey: true });
  press(box, ".");
  assert.deepEqual(pressed, []);
  press(box, ".", { metaKey: true });
  assert.deepEqual(pressed, ["stop"]);
  assert.match(root.querySelector("#shortcuts-body").textContent, /⌘\+\.Stop the reply/);
  assert.equal(keys.held, "⌘");
});

test("a button that is hidden, turned off or out of reach is not pressed", () => {
  shortcuts();
  const stop = root.querySelector("#stop");
  press(root.querySelector("#message-box"), ".", { ctrlKey: true });
  stop.hidden = false;
  stop.disabled = true;
  press(root.querySelector("#message-box"), ".", { ctrlKey: true });
  root.querySelector("#sidebar").setAttribute("inert", "");
  press(root.querySelector("#transcript"), "n");
  assert.deepEqual(pressed, []);
});

test("turned off, letters do nothing and no title names them; the held one stays", () => {
  const keys = shortcuts();
  const chat = root.querySelector("#new-chat");
  assert.equal(chat.title, "New chat (N)");
  keys.turn(false);
  assert.equal(chat.title, "New chat");
  press(root.querySelector("#transcript"), "n");
  assert.deepEqual(pressed, []);
  root.querySelector("#stop").hidden = false;
  press(root.querySelector("#transcript"), ".", { ctrlKey: true });
  assert.deepEqual(pressed, ["stop"]);
  assert.equal(store, "off");
});

test("no two keys are the same, and all stand in the sheet", () => {
  shortcuts();
  const names = SHORTCUTS.map(({ key, held }) => `${held} ${key}`);
  assert.equal(new Set(names).size, names.length);
  const sheet = root.querySelector("#shortcuts-body").textContent;
  for (const { label } of SHORTCUTS) assert.ok(sheet.includes(label), label);
});
