/* Tokens, single actions and order of requests that overlap. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { InOrder, Latest, once, single, tell } from "../../../assets/shared/requests.js";

function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

test("only the latest request counts", () => {
  const requests = new Latest();
  const first = requests.begin();
  assert.equal(first(), true);
  const moment = requests.now();
  const second = requests.begin();
  assert.deepEqual([first(), moment(), second()], [false, false, true]);
});

test("once: asking again while it runs is the same request", async () => {
  const door = gate();
  let runs = 0;
  const load = once(async () => ((runs += 1), door.opened));
  const both = [load(), load()];
  door.open("done");
  assert.deepEqual(await Promise.all(both), ["done", "done"]);
  assert.equal(runs, 1);
  await load();
  assert.equal(runs, 2);
});

test("once: the action that asks for itself runs once", async () => {
  let runs = 0;
  const finish = once(() => {
    runs += 1;
    finish();
  });
  await finish();
  assert.equal(runs, 1);
});

test("once: a failed run is told to all and does not block the next", async () => {
  let runs = 0;
  const fails = once(() => {
    runs += 1;
    throw new Error("broken");
  });
  const both = [fails(), fails()];
  for (const one of both) await assert.rejects(one, /broken/);
  await assert.rejects(fails(), /broken/);
  assert.equal(runs, 2);
});

test("single: what is asked meanwhile is refused", async () => {
  const door = gate();
  const write = single();
  const first = write(() => door.opened);
  assert.equal(await write(() => "second"), false);
  door.open("first");
  assert.equal(await first, "first");
  assert.equal(await write(() => "third"), "third");
  await assert.rejects(write(() => Promise.reject(new Error("no"))));
  assert.equal(await write(() => "fourth"), "fourth");
});

test("in order: each begins when the one before was answered, failed or not", async () => {
  const [first, second] = [gate(), gate()];
  const begun = [];
  const writes = new InOrder();
  const run = (name, door) => writes.run(() => (begun.push(name), door.opened));
  const one = run("one", first);
  const two = writes.run(() => Promise.reject(new Error("no")));
  const three = run("three", second);
  await Promise.resolve();
  assert.deepEqual(begun, ["one"]);
  first.open(1);
  assert.equal(await one, 1);
  await assert.rejects(two, /no/);
  second.open(3);
  assert.equal(await three, 3);
  assert.deepEqual(begun, ["one", "three"]);
});

test("tell: a failure is drawn, but not over the next request", async () => {
  const requests = new Latest();
  const drawn = [];
  const draw = (problem) => drawn.push(problem);
  await tell(requests, () => Promise.reject(new Error("no")), draw);
  assert.deepEqual(drawn, ["", "no"]);
  const late = gate();
  const first = tell(
    requests,
    () => late.opened.then(() => Promise.reject(new Error("old"))),
    draw,
  );
  await tell(requests, () => Promise.resolve(), draw);
  late.open();
  await first;
  assert.deepEqual(drawn, ["", "no", "", ""]);
});
