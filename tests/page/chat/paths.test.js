/* Another path of the chat is shown: what is drawn anew, and what stays. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Drafts } from "../../../assets/chat/drafts.js";
import { press, settle, type } from "../dom.js";
import { openChat, opened, reply, userEvent } from "../openchat.js";

let root, server, chat, transcript;

beforeEach(() => {
  ({ root, server, chat, transcript } = openChat());
});

const shown = () => [...transcript.messages.values()].map(({ text }) => text);

test("a message that follows another than the last drawn one makes the page look again", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "question", "of another path"));
  chat.event({ k: "after", c: 1, m: 99 }, 1); // its path is not the drawn one
  chat.event({ ...userEvent(1, 100, "elsewhere"), parent: 99 }, 2);
  assert.deepEqual(shown(), ["question", "of another path"]);
  await server.answer("open", opened(1, 3, "question", "elsewhere"));
  assert.deepEqual(shown(), ["question", "elsewhere"]);
});

test("what is typed into a form stays while another path is shown, and comes back with its own", async () => {
  const both = opened(1, 0, "question", "more");
  chat.open(1);
  await server.answer("open", both);
  const entry = transcript.messages.get(11);
  entry.startEdit();
  const form = entry.element.querySelector(".edit-box");
  form.value = "more, as I want it";
  chat.event({ k: "after", c: 1, m: 10 }, 1);
  chat.event({ k: "changed", c: 1 }, 2);
  await server.answer("open", opened(1, 3, "question"));
  assert.equal(form.isConnected, false);
  chat.event({ k: "changed", c: 1 }, 4);
  await server.answer("open", both);
  assert.equal(form.isConnected, true);
  assert.equal(form.value, "more, as I want it");
});

test("a form that was closed meanwhile does not come back", async () => {
  const both = opened(1, 0, "question", "more");
  chat.open(1);
  await server.answer("open", both);
  const entry = transcript.messages.get(11);
  entry.startEdit();
  chat.event({ k: "after", c: 1, m: 10 }, 1);
  entry.element.querySelector("[type=button]").dispatchEvent(new window.Event("click"));
  chat.event({ k: "changed", c: 1 }, 2);
  await server.answer("open", both);
  assert.equal(root.querySelector(".edit-box"), null);
});

test("a reply that is the same keeps its element, whatever the order of its details", async () => {
  chat.open(1);
  const with_ = (details) => ({ conversation: 1, seq: 0, messages: [reply(10, details)] });
  await server.answer("open", with_({ finish: "eos", stats: { rounds: 0, emitted: 1 } }));
  const { element } = transcript.messages.get(10);
  chat.reopen();
  await server.answer("open", with_({ stats: { emitted: 1, rounds: 0 }, finish: "eos" }));
  assert.equal(transcript.messages.get(10).element, element);
  chat.reopen();
  await server.answer("open", with_({ finish: "stopped", stats: { emitted: 1, rounds: 0 } }));
  assert.notEqual(transcript.messages.get(10).element, element);
});

test("a reply with thoughts of another program keeps its element", async () => {
  chat.open(1);
  const answer = { conversation: 1, seq: 0, messages: [{ ...reply(10), reasoning: "hm" }] };
  await server.answer("open", answer);
  const { element } = transcript.messages.get(10);
  chat.reopen();
  await server.answer("open", answer);
  assert.equal(transcript.messages.get(10).element, element);
});

test("looking again chooses nothing: open drawers stay, and what was being sent", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  let chosen = 0;
  chat.page.chosen = () => (chosen += 1);
  chat.event({ k: "changed", c: 1 }, 1);
  await server.answer("open", opened(1, 2, "one"));
  assert.equal(chosen, 0);
});

test("what is read for a version that is not shown is not told in the figures", async () => {
  const progress = [];
  chat.page.figures.setProgress = (text) => progress.push(text);
  chat.open(1);
  await server.answer("open", { ...opened(1, 0, "one"), writing: 77 });
  chat.event({ k: "prefill", c: 1, m: 77, done: 1, total: 2, reused: 0 }, 1);
  assert.deepEqual(progress, []);
});

test("nothing asks for the layout between the messages of a chat", async () => {
  const scroller = root.querySelector("#transcript");
  let asked = 0;
  Object.defineProperty(scroller, "scrollHeight", { get: () => ((asked += 1), 0) });
  const countOf = async (number) => {
    asked = 0;
    chat.open(number);
    const messages = Array.from({ length: number }, (_, at) => reply(1000 * number + at));
    await server.answer("open", { conversation: number, seq: 0, messages });
    assert.equal(transcript.messages.size, number);
    return asked;
  };
  assert.equal(await countOf(40), await countOf(2));
});

test("what is typed into a form is there again after a reload, until the form is closed", async () => {
  const edits = new Drafts({
    value: null,
    get: () => edits.kept.value,
    set: (one) => (edits.kept.value = one),
  });
  transcript.actions.edits = edits;
  const begin = async () => {
    chat.open(1);
    await server.answer("open", opened(1, 0, "question"));
    transcript.messages.get(10).startEdit();
    return transcript.messages.get(10).element.querySelector(".edit-box");
  };
  type(await begin(), "question, as I want it");
  transcript.messages.clear();
  const box = await begin();
  assert.equal(box.value, "question, as I want it");
  press(box, "Escape");
  transcript.messages.clear();
  assert.equal((await begin()).value, "question");
});

test("steps add up, however late the versions between are drawn; a refused one does not count", async () => {
  const asked = [];
  let taken = true;
  transcript.actions.select = (id) => (asked.push(id), Promise.resolve(taken));
  const version = (id) => ({
    ...{ conversation: 1, seq: 0 },
    messages: [{ ...reply(id), versions: [10, 11, 12, 13] }],
  });
  chat.open(1);
  await server.answer("open", version(13));
  const go = (by) => [...transcript.messages.values()][0].switcher.go(by);
  go(-1);
  go(-1);
  chat.reopen();
  await server.answer("open", version(12)); // of the first step, late
  go(-1);
  assert.equal(go(-1), false);
  assert.deepEqual(asked, [12, 11, 10]);
  chat.reopen();
  await server.answer("open", version(10));
  taken = false;
  go(1);
  await settle();
  go(1);
  assert.deepEqual(asked, [12, 11, 10, 11, 11]);
});

test("a greeting answers nothing: it cannot be written again", async () => {
  const again = () => [...root.querySelectorAll(`[data-does="regenerate"]`)].length;
  chat.open(1);
  const greeting = { ...reply(10), parent: null };
  await server.answer("open", { conversation: 1, seq: 0, messages: [greeting] });
  assert.equal(again(), 0);
  const answer = { ...reply(12), parent: 11 };
  chat.open(2);
  await server.answer("open", { conversation: 2, seq: 0, messages: [answer] });
  assert.equal(again(), 1);
});
