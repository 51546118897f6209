/* The conversation that is shown and written to, while answers come late and in any order. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Chat } from "../../../assets/chat/chat.js";
import { Drafts } from "../../../assets/chat/drafts.js";
import { Transcript } from "../../../assets/chat/transcript.js";
import { newPage, press, settle, type } from "../dom.js";
import { LateServer } from "../server.js";

let root, server, chat, transcript, toasts, drafts, box;

beforeEach(() => {
  root = newPage();
  server = new LateServer();
  toasts = [];
  const kept = { value: null, get: () => kept.value, set: (value) => (kept.value = value) };
  drafts = new Drafts(kept);
  box = root.querySelector("#message-box");
  const $ = (selector) => root.querySelector(selector);
  transcript = new Transcript(
    { scroller: $("#transcript"), list: $("#messages"), toEnd: $("#to-end") },
    {},
  );
  const nothing = () => {};
  chat = new Chat({
    ...{ root, transcript, drafts, changed: nothing, chosen: nothing, advise: nothing },
    figures: { clear: nothing, show: nothing, setProgress: nothing },
    viewBar: { setDrafters: nothing },
    call: server.call,
    attempt: async (action) => {
      try {
        await action();
        return true;
      } catch (error) {
        toasts.push(error.message);
        return false;
      }
    },
  });
  chat.greet({ conversation: null, messages: [], seq: 0 }, null);
});

const opened = (conversation, seq, ...texts) => ({
  conversation,
  seq,
  messages: texts.map((content, at) => ({ id: 10 * conversation + at, role: "user", content })),
});
const userEvent = (c, m, text) => ({ k: "user", c, m, text });
const shown = () => [...transcript.messages.values()].map(({ text }) => text);

test("of two quick clicks only the last is drawn, whichever is answered first", async () => {
  chat.open(1);
  chat.open(2);
  await server.answer("open", opened(2, 5, "two"), 1);
  await server.answer("open", opened(1, 4, "one"));
  assert.deepEqual([chat.conversation, shown()], [2, ["two"]]);
  const [first, second] = server.asked.map(([, args]) => args.order);
  assert.ok(second > first);
});

test("events of the conversation before are not drawn into the new one", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  chat.open(2);
  chat.event(userEvent(1, 99, "late, of one"), 0);
  await server.answer("open", opened(2, 1, "two"));
  chat.event(userEvent(1, 100, "later, of one"), 1);
  chat.event(userEvent(2, 101, "of two"), 2);
  assert.deepEqual(shown(), ["two", "of two"]);
});

test("events between the click and the answer are drawn after it, those it holds are not", async () => {
  chat.open(1);
  chat.event(userEvent(1, 7, "in the answer already"), 3);
  chat.event(userEvent(1, 20, "behind it"), 4);
  assert.deepEqual(shown(), []);
  await server.answer("open", opened(1, 4, "in the answer already"));
  assert.deepEqual(shown(), ["in the answer already", "behind it"]);
});

test("the transcript cannot be used while it is of the conversation before", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  const list = root.querySelector("#messages");
  assert.equal(Boolean(list.inert), false);
  chat.open(2);
  assert.equal(list.inert, true);
  await server.answer("open", opened(2, 0, "two"));
  assert.equal(list.inert, false);
});

test("what is sent right after New chat makes a new one", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  chat.open(null);
  assert.deepEqual(shown(), []);
  type(box, "hello");
  press(box, "Enter");
  await settle();
  assert.deepEqual(server.asked.at(-1)[1].conversation, null);
  chat.event(userEvent(3, 30, "hello"), 0); // before the answer
  await server.answer("send", { conversation: 3 });
  await server.answer("open", opened(null, 1)); // of New chat, late
  assert.deepEqual([chat.conversation, shown(), location.hash], [3, ["hello"], "#chat-3"]);
});

test("what is sent right after a click goes to the conversation clicked", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  chat.open(2);
  type(box, "for two");
  press(box, "Enter");
  await settle();
  assert.equal(server.asked.at(-1)[1].conversation, 2);
  chat.event(userEvent(2, 50, "for two"), 0);
  await server.answer("send", { conversation: 2 });
  await server.answer("open", opened(2, 0, "two"));
  assert.deepEqual(shown(), ["two", "for two"]);
});

test("two quick Enters send once, and the text typed after the first stays", async () => {
  type(box, "first");
  press(box, "Enter");
  type(box, `${box.value}second`);
  press(box, "Enter");
  await settle();
  assert.equal(server.count("send"), 1);
  assert.equal(box.value, "second");
  await server.answer("send", { conversation: 3 });
  assert.equal(box.value, "second");
  assert.equal(drafts.get(3), "second");
  assert.equal(drafts.get(null), "");
});

test("a message that is refused comes back before what was typed since", async () => {
  type(box, "first");
  press(box, "Enter");
  type(box, "second");
  assert.equal(drafts.get(null), "first\nsecond"); // a reload now loses nothing
  await server.refuse("send", "no model is loaded");
  assert.equal(box.value, "first\nsecond");
  assert.deepEqual(toasts, ["no model is loaded"]);
});

test("a chat that was left while its message was on its way keeps only what was not sent", async () => {
  type(box, "sent");
  press(box, "Enter");
  type(box, "not sent");
  chat.open(1);
  assert.equal(box.value, "");
  await server.answer("send", { conversation: 3 });
  await server.answer("open", opened(1, 0, "one"));
  assert.deepEqual([chat.conversation, shown()], [1, ["one"]]);
  assert.equal(drafts.get(null), "not sent");
});

test("a chat that was left does not come back with the answer to its message", async () => {
  type(box, "sent");
  press(box, "Enter");
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  await server.answer("send", { conversation: 3 });
  assert.deepEqual([chat.conversation, shown(), location.hash], [1, ["one"], "#chat-1"]);
});

test("a message of a chat that was left is kept there when it is refused", async () => {
  type(box, "sent");
  press(box, "Enter");
  chat.open(1);
  await server.refuse("send");
  assert.equal(box.value, "");
  assert.equal(drafts.get(null), "sent");
});

test("each conversation has its own draft", async () => {
  type(box, "for a new one");
  chat.open(1);
  assert.equal(box.value, "");
  type(box, "for one");
  chat.open(2);
  chat.open(1);
  assert.equal(box.value, "for one");
  chat.open(null);
  assert.equal(box.value, "for a new one");
});

test("a conversation that cannot be opened leaves the one that is drawn", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 0, "one"));
  chat.open(2);
  await server.refuse("open");
  assert.equal(chat.conversation, 1);
  assert.equal(server.asked.at(-1)[1].conversation, 1); // the server may have gone on to the other
  await server.answer("open", opened(1, 0, "one"));
  assert.deepEqual(shown(), ["one"]);
  chat.open(2);
  await server.refuse("open");
  await server.refuse("open");
  assert.deepEqual([chat.conversation, root.querySelector("#messages").inert], [1, false]);
  chat.makeSure();
  assert.equal(server.asked.at(-1)[1].conversation, 1);
});

test("only one change of the conversation at a time", async () => {
  const first = chat.change("regenerate", { message: 1 });
  assert.equal(await chat.change("edit", { message: 2, text: "x" }), false);
  await server.answer("regenerate", null);
  assert.equal(await first, true);
});

test("a new session draws the conversation chosen since it was asked for", async () => {
  chat.open(1);
  await server.answer("open", opened(1, 9, "one"));
  chat.open(2);
  chat.greet(opened(1, 0, "one"), 1);
  await server.answer("open", opened(2, 0, "two"), 1);
  assert.deepEqual([chat.conversation, shown()], [2, ["two"]]);
});

test("events held back from the session before are not drawn in a new one", async () => {
  chat.open(1);
  chat.event(userEvent(1, 99, "of the session before"), 500);
  chat.greet(opened(1, 0, "one"), 1);
  await server.answer("open", opened(1, 600, "old"));
  assert.deepEqual(shown(), ["one"]);
});

test("a message sent over a lost session is shown", async () => {
  type(box, "hello");
  press(box, "Enter");
  await settle();
  chat.greet({ conversation: null, messages: [], seq: 0 }, null);
  chat.event(userEvent(3, 30, "hello"), 0);
  await server.answer("send", { conversation: 3 });
  await server.answer("open", opened(3, 1, "hello"));
  assert.deepEqual([chat.conversation, shown()], [3, ["hello"]]);
});

test("a message that is being edited stays so when the server was started again", async () => {
  const chatOfServer = opened(1, 0, "one", "two");
  chat.open(1);
  await server.answer("open", chatOfServer);
  const [edited] = transcript.messages.values();
  edited.startEdit();
  const editBox = root.querySelector(".edit-box");
  editBox.value = "one, better";
  chat.greet(chatOfServer, 1);
  assert.equal(root.querySelector(".edit-box"), editBox);
  assert.deepEqual(shown(), ["one", "two"]);
  chat.open(2);
  await server.answer("open", opened(2, 0, "three"));
  assert.equal(root.querySelector(".edit-box"), null);
});

const reply = (id, details = {}) => ({
  ...{ id, role: "assistant", content: "said", tokens: [["said", "p", null, null, null, null]] },
  ...{ details, versions: [id] },
});

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
