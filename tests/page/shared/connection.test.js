/* The line to the server: sessions that change, and streams that bring what is old. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Connection } from "../../../assets/shared/connection.js";
import { LateServer } from "../server.js";
import { settle } from "../dom.js";

let server, connection, told, kept, conversation;

const events = (session, seq, ...names) => ({
  ...{ session, seq, attached: true, lost: false },
  events: names.map((k) => ({ k })),
});

beforeEach(async () => {
  server = new LateServer();
  told = [];
  kept = {
    value: "of the tab before",
    get: () => kept.value,
    set: (value) => (kept.value = value),
  };
  conversation = 1;
  const bridge = {
    server: {
      hello: (args) => server.call("hello", args),
      call: (args) => server.call("call", args),
      resync: (args) => server.call("resync", args),
    },
    follow: () => {},
    onValue: () => {},
  };
  const handlers = {
    hello: (hello, asked) => told.push(`hello ${hello.session} ${asked}`),
    event: (event, number) => told.push(`${event.k} ${number}`),
    online: (online) => told.push(`online ${online}`),
    conversation: () => conversation,
  };
  connection = new Connection(bridge, handlers, kept);
  connection.greet();
  await server.answer("hello", { session: "A" });
});

test("a reload tells which session it had before", () => {
  assert.deepEqual(server.asked, [["hello", { conversation: 1, before: "of the tab before" }]]);
  assert.equal(kept.value, "A");
});

test("what the stream of an earlier session still brings is no part of the new one", async () => {
  connection.receive(JSON.stringify(events("A", 0, "x")));
  connection.greet();
  await server.answer("hello", { session: "B" });
  connection.receive(JSON.stringify(events("A", 500, "old")));
  connection.receive(JSON.stringify(events("B", 0, "new")));
  await settle();
  assert.deepEqual(told, ["hello A 1", "x 0", "hello B 1", "new 0"]);
  assert.equal(server.count("resync"), 0);
});

test("a beat of an earlier session is not taken for one of the new", async () => {
  connection.beat();
  connection.greet();
  await server.answer("hello", { session: "B" });
  await server.answer("resync", { unknown: true });
  assert.equal(server.count("hello"), 2);
});

test("beats answered in any order: the latest tells whether the server is there", async () => {
  connection.beat();
  connection.beat();
  await server.answer("resync", events("A", 0), 1);
  await server.refuse("resync");
  assert.equal(connection.online, true);
});

test("a server that hangs is told to be away, and asked no more until it answers", async () => {
  for (let beat = 0; beat < 6; beat += 1) connection.beat();
  assert.equal(server.count("resync"), 3);
  assert.equal(connection.online, false);
  for (let beat = 0; beat < 3; beat += 1) await server.answer("resync", events("A", 0));
  assert.equal(connection.online, true);
  connection.beat();
  assert.equal(server.count("resync"), 4);
});

test("missed events are asked for, and each comes once and in order", async () => {
  connection.receive(JSON.stringify(events("A", 2, "c")));
  await settle();
  connection.receive(JSON.stringify(events("A", 3, "d")));
  await server.answer("resync", events("A", 0, "a", "b", "c"));
  assert.deepEqual(told.slice(1), ["a 0", "b 1", "c 2", "d 3"]);
});

test("a request over a lost session is made again in a new one, with one greeting for all", async () => {
  const lost = { error: { kind: "SessionLost", message: "lost" } };
  const answers = [connection.call("open", { conversation: 1 }), connection.call("view", {})];
  await server.answer("call", lost);
  await server.answer("call", lost);
  await server.answer("hello", { session: "B" });
  assert.equal(server.count("hello"), 2);
  await server.answer("call", { result: "one", attached: true });
  await server.answer("call", { result: "two", attached: true });
  assert.deepEqual(await Promise.all(answers), ["one", "two"]);
  assert.equal(server.asked.at(-1)[1].session, "B");
});

test("without an answer the request fails, and the page says so", async () => {
  const failed = assert.rejects(connection.call("open", {}), /does not answer/);
  await server.refuse("call");
  await failed;
  assert.equal(told.at(-1), "online false");
});
