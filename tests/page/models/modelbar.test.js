/* Targets and drafters: lists that come late, and what is loaded then. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { ModelBar } from "../../../assets/models/modelbar.js";
import { learnNames } from "../../../assets/shared/names.js";
import { newPage, settle } from "../dom.js";
import { LateServer } from "../server.js";

let root, server, bar, load, asked;

const option = (value, reason = null) => ({
  ...{ value, label: value, detail: "", group: "g", reason, action: null },
  ...{ suggested: false, tuning: [] },
});
const lists = (...drafters) => ({
  targets: [option("small"), option("large")],
  drafters: drafters.map((one) => option(...[one].flat())),
});
const drafterButton = () => root.querySelector("#drafter-box .box-button");
const chosen = (value, more = {}) => ({ value, tree: 0, layers: "", siblings: false, ...more });
const PREFERENCES = { target: "small", chosen: [chosen("model:tiny")], settings: {} };

beforeEach(async () => {
  root = newPage();
  server = new LateServer();
  load = root.querySelector("#load");
  asked = [];
  bar = new ModelBar(root, {
    call: server.call,
    ask: async (question) => (asked.push(question), true),
    toast: () => {},
    openModels: () => {},
  });
  bar.start({ loaded: null, progress: null, error: null, pair: null }, PREFERENCES);
  await server.answer("options", lists("model:tiny", "ngram"));
});

function chooseTarget(value) {
  bar.target.setValues([value]);
  return bar.targetChanged();
}

test("the lists of the last target stay, whichever answer comes last", async () => {
  chooseTarget("large");
  chooseTarget("small");
  await server.answer("options", lists("model:tiny", "ngram"), 1);
  await server.answer("options", lists("tli:tiny", "ngram"));
  assert.deepEqual(
    bar.drafters.options.map(({ value }) => value),
    ["model:tiny", "ngram"],
  );
  assert.deepEqual(bar.pair(), { target: "small", drafters: [chosen("model:tiny")] });
});

test("drafters of the target before can be neither chosen nor loaded", async () => {
  bar.drafters.open();
  chooseTarget("large");
  assert.equal(drafterButton().getAttribute("aria-disabled"), "true");
  assert.equal(root.querySelector("#drafter-box .box-popup").hidden, true);
  drafterButton().click();
  assert.equal(root.querySelector("#drafter-box .box-popup").hidden, true);
  assert.equal(load.disabled, true);
  await server.answer("options", lists(["model:tiny", "does not fit"], "tli:tiny"));
  assert.equal(drafterButton().getAttribute("aria-disabled"), "false");
  assert.equal(load.disabled, false);
});

test("a load waits for the lists of its target", async () => {
  chooseTarget("large");
  const loading = bar.load();
  await settle();
  assert.equal(server.count("memory"), 0);
  await server.answer("options", lists(["model:tiny", "does not fit"], "tli:tiny"));
  await server.answer("memory", "");
  assert.deepEqual(server.asked.at(-1), ["load", { target: "large", drafters: [] }]);
  await server.answer("load", null);
  await loading;
});

test("two quick clicks load once", async () => {
  load.click();
  load.click();
  await settle();
  await server.answer("memory", "little is left");
  await server.answer("load", null);
  assert.deepEqual(
    ["memory", "load"].map((action) => server.count(action)),
    [1, 1],
  );
  assert.equal(asked.length, 1);
});

test("without an answer the target goes back to the one that the lists are of", async () => {
  const failed = assert.rejects(chooseTarget("large"));
  await server.refuse("options");
  await failed;
  assert.deepEqual(bar.pair(), { target: "small", drafters: [chosen("model:tiny")] });
  assert.equal(load.disabled, false);
});

test("an older request that fails does not undo the newer one", async () => {
  const first = chooseTarget("large");
  chooseTarget("small");
  await server.refuse("options");
  await server.answer("options", lists("model:tiny"));
  await first;
  assert.deepEqual([bar.pair().target, load.disabled], ["small", false]);
});

test("a choice that is not loaded yet outlives a new session", async () => {
  chooseTarget("large");
  await server.answer("options", lists("ngram"));
  bar.start({ loaded: null, progress: null, error: null, pair: null }, PREFERENCES);
  await server.answer("options", lists("ngram"));
  assert.equal(bar.pair().target, "large");
});

/** What is loaded, as the server tells it. */
const loaded = (drafters, more) => ({
  ...{ progress: null, error: null, names: { small: "Small 1B", "model:tiny": "Tiny" } },
  pair: { target: "small" },
  loaded_pair: { target: "small" },
  chosen: drafters,
  loaded_chosen: drafters,
  loaded: {
    ...{ target: { id: "small", context_length: 8 }, drafters: [], memory_bytes: 0, notices: [] },
    ...{ predicted: {}, has_chat_template: true, strict_width: null, request: {}, kind: "" },
    ...more,
  },
});
const status = () => root.querySelector("#engine-status").textContent;

test("a drafter that is set otherwise is not what is loaded", () => {
  bar.show(loaded([chosen("model:tiny")]));
  assert.equal(bar.isCurrent(), true);
  bar.choose([chosen("model:tiny", { siblings: true })]);
  assert.equal(bar.isCurrent(), false);
  bar.show(loaded([chosen("model:tiny", { siblings: true })]));
  assert.equal(bar.isCurrent(), true);
});

test("several drafters are current when they are combined as the settings say", () => {
  bar.choose([chosen("model:tiny"), chosen("ngram")]);
  bar.show(loaded(bar.pair().drafters, { kind: "vote" }));
  bar.settingsChanged({ combination: "first" });
  assert.deepEqual([bar.isLoaded(), bar.isCurrent()], [true, false]);
  bar.settingsChanged({ combination: "vote" });
  assert.equal(bar.isCurrent(), true);
});

test("what is loaded is called as the server says, and anew when that changes", () => {
  const member = (name, size) => ({ name, kind: "model", memory_bytes: size, members: [] });
  const members = [member("model:tiny", 2e6), member("ngram", 0)];
  const vote = { name: "vote(model:tiny,ngram)", kind: "vote", memory_bytes: 2e6, members };
  bar.show(loaded([], { drafters: [vote], kind: "vote" }));
  assert.match(status(), /^Small 1B with vote of Tiny 2 MB, ngram \(2 MB together\)/);
  learnNames({ ngram: "n-gram lookup" });
  assert.match(status(), /vote of Tiny 2 MB, n-gram lookup/);
});
