/* The settings of one chat, while answers come late and the chat is another one by then. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { ChatSettings } from "../../../assets/frame/chatsettings.js";
import { newPage, settle } from "../dom.js";
import { LateServer } from "../server.js";

let root, server, settings, current, begun;

const FIELDS = ["temperature", "top_k", "threads"].map((name) => ({
  name,
  label: name,
  kind: "number",
  group: "Reply",
  help: "",
  empty: "",
}));

const state = (conversation, more = {}) => ({
  conversation,
  values: { temperature: 0.7, top_k: 40 },
  own: [],
  preset: "",
  character: "",
  advice: null,
  presets: [],
  default: "",
  ...more,
});

const input = (name) => root.querySelector(`#chat-setting-${name}`);
const origin = (name) => input(name).closest(".field").querySelector(".origin");
const advice = () => root.querySelector(".advice");

function set(name, value) {
  input(name).value = value;
  input(name).dispatchEvent(new window.Event("input", { bubbles: true }));
  input(name).dispatchEvent(new window.Event("change", { bubbles: true }));
}

/** Opens the dialog; the request is on its way then. */
function open() {
  settings.open();
  return settle();
}

beforeEach(() => {
  root = newPage();
  window.HTMLElement.prototype.showModal = function () {
    this.open = true;
  };
  server = new LateServer();
  current = null;
  begun = [];
  settings = new ChatSettings(root, {
    call: server.call,
    ask: async () => true,
    session: () => "s",
    current: () => current,
    begin: (id) => begun.push((current = id)),
  });
  settings.build(FIELDS);
});

test("only what a chat may set itself has a field", () => {
  assert.ok(input("temperature") && !input("threads"));
});

test("whose value each one is stands beside it, with the way back", async () => {
  current = 7;
  await open();
  await server.answer("chat_settings", state(7, { own: ["top_k"] }));
  assert.match(origin("temperature").textContent, /As in the general settings/);
  assert.ok(origin("temperature").querySelector("button").hidden);
  assert.match(origin("top_k").textContent, /Only in this chat/);
  origin("top_k").querySelector("button").click();
  await settle();
  assert.deepEqual(server.asked.at(-1), [
    "chat_set",
    { conversation: 7, changes: { top_k: null } },
  ]);
});

test("two choices for a new chat begin one chat", async () => {
  await open();
  await server.answer("chat_settings", state(null));
  set("temperature", "0.1");
  set("top_k", "5");
  await settle();
  assert.equal(server.count("chat_set"), 1);
  await server.answer("chat_set", state(9));
  assert.deepEqual(begun, [9]);
  assert.deepEqual(server.asked.at(-1)[1], { conversation: 9, changes: { top_k: 5 } });
  await server.answer("chat_set", state(9));
  assert.deepEqual(begun, [9]);
});

test("an answer about the chat before is not drawn", async () => {
  current = 1;
  await open();
  current = 2;
  await open();
  await server.answer("chat_settings", state(1, { values: { temperature: 0.1, top_k: 1 } }));
  await settle();
  await server.answer("chat_settings", state(2, { values: { temperature: 0.2, top_k: 2 } }));
  assert.equal(input("temperature").value, "0.2");
});

test("a refused value stays in its field with the reason", async () => {
  current = 1;
  await open();
  await server.answer("chat_settings", state(1));
  set("temperature", "99");
  await settle();
  await server.refuse("chat_set", "too hot");
  assert.equal(input("temperature").value, "99");
  assert.match(input("temperature").closest(".field").textContent, /too hot/);
});

test("the maker's advice is offered until the chat follows it", async () => {
  current = 1;
  const known = { family: "Qwen3", values: { temperature: 0.6, top_k: 20 } };
  await open();
  await server.answer("chat_settings", state(1, { advice: known }));
  assert.match(advice().textContent, /Qwen3 recommend temperature 0.6, top k 20/);
  advice().querySelector("button").click();
  await settle();
  const [, asked] = server.asked.at(-1);
  assert.deepEqual(asked, { conversation: 1, changes: known.values });
  await server.answer("chat_set", state(1, { advice: known, values: known.values }));
  assert.ok(advice().hidden);
});

test("a preset that was deleted still names what the chat has", async () => {
  current = 1;
  await open();
  await server.answer("chat_settings", state(1, { preset: "Old" }));
  assert.match(root.querySelector("#chat-preset").textContent, /Old \(deleted\)/);
});
