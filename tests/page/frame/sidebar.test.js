/* The list of conversations, while answers come late and the server tells of changes. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Sidebar } from "../../../assets/frame/sidebar.js";
import { newPage, press, settle, type } from "../dom.js";
import { LateServer } from "../server.js";

let root, server, sidebar, list, opened, current;

const found = (...titles) => ({
  items: titles.map((title, at) => ({ id: at + 1, title, updated: 0 })),
  more: false,
});
const titles = () =>
  [...list.querySelectorAll(".conversation")].map(({ textContent }) => textContent);
const buttonOf = (number, name) =>
  list.querySelectorAll("li")[number].querySelector(`.icon-button[title^="${name}"]`);
const renameBox = () => list.querySelector(".rename");

function search(text) {
  type(root.querySelector("#conversation-search"), text);
  sidebar.find();
}

function rename(number) {
  buttonOf(number, "Rename").click();
  return renameBox();
}

beforeEach(() => {
  root = newPage();
  window.HTMLInputElement.prototype.select = () => {};
  server = new LateServer();
  list = root.querySelector("#conversation-list");
  opened = [];
  current = null;
  sidebar = new Sidebar(root, {
    call: server.call,
    toast: () => {},
    open: (id) => opened.push(id),
    current: () => current,
  });
  sidebar.changed(found("one", "two"));
});

test("only the answer to the latest search is listed", async () => {
  search("z");
  search("ze");
  await server.answer("search", found("zebra"), 1);
  await server.answer("search", found("zoo", "zebra"));
  assert.deepEqual(titles(), ["zebra"]);
});

test("an answer to a search that was cleared is not listed", async () => {
  search("z");
  search("");
  sidebar.changed(found("three"));
  await server.answer("search", found("zebra"));
  await server.answer("search", found("old"));
  assert.deepEqual(titles(), ["three"]);
});

test("the list cannot be used while it is of another search", async () => {
  type(root.querySelector("#conversation-search"), "z");
  assert.equal(list.inert, true);
  sidebar.find();
  await server.answer("search", found("zebra"));
  assert.equal(list.inert, false);
  search("q");
  await server.refuse("search");
  assert.equal(list.inert, false);
});

test("a title that is being typed stays while the list changes", async () => {
  const box = rename(0);
  box.value = "half a ti";
  sidebar.changed(found("three", "one"));
  assert.equal(renameBox(), box);
  box.value = "half a title";
  press(box, "Enter");
  assert.deepEqual(server.asked, [["rename", { conversation: 1, title: "half a title" }]]);
  sidebar.changed(found("half a title", "three"));
  await server.answer("rename", null);
  assert.deepEqual(titles(), ["half a title", "three"]);
});

test("a title is sent once, by Enter or by leaving, and not at all by Escape", async () => {
  let box = rename(0);
  box.value = "new";
  press(box, "Enter");
  box.dispatchEvent(new window.Event("blur"));
  await server.answer("rename", null);
  assert.equal(server.count("rename"), 1);
  assert.deepEqual(titles(), ["new", "two"]);
  box = rename(0);
  box.value = "other";
  press(box, "Escape");
  await settle();
  assert.equal(server.count("rename"), 1);
  assert.deepEqual(titles(), ["new", "two"]);
});

test("two quick clicks delete once; the page moves on only if the chat is still shown", async () => {
  current = 1;
  const remove = buttonOf(0, "Delete");
  remove.click();
  remove.click();
  current = 2;
  await server.answer("delete", null);
  assert.equal(server.count("delete"), 1);
  assert.deepEqual(opened, []);
});

test("more are shown on demand, and stay when the list changes", async () => {
  const more = root.querySelector("#conversation-more");
  assert.equal(more.hidden, true);
  sidebar.changed({ ...found("one"), more: true });
  assert.equal(more.hidden, false);
  more.click();
  await server.answer("search", found("one", "two", "three"));
  assert.deepEqual(server.asked.at(-1)[1], { text: "", limit: 400 });
  assert.deepEqual([titles().length, more.hidden], [3, true]);
  sidebar.changed({ ...found("four"), more: true });
  await server.answer("search", found("four", "one", "two", "three"));
  assert.deepEqual(titles(), ["four", "one", "two", "three"]);
});
