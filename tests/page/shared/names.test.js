/* Names of drafters: the same table as for the server's rules, tests/app/test_names.py. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { drafterName, learnNames, modelName, onNames } from "../../../assets/shared/names.js";

const table = JSON.parse(await readFile(new URL("../names.json", import.meta.url), "utf8"));
learnNames(Object.entries(table.labels).map(([value, label]) => ({ value, label })));

for (const [expression, name] of table.names) {
  test(`${expression} is called ${name}`, () => assert.equal(drafterName(expression), name));
}

test("a target is called as in its list, else by its file", () => {
  assert.equal(modelName("starter"), "SmolLM2 135M");
  assert.equal(modelName("/models/x.gguf"), "x");
});

test("what shows names hears of new ones, and of nothing else", () => {
  let heard = 0;
  onNames(() => heard++);
  learnNames([{ value: "starter", label: "SmolLM2 135M" }]);
  assert.equal(heard, 0);
  learnNames([{ value: "model:late", label: "Late" }]);
  assert.deepEqual([heard, drafterName("model:late")], [1, "Late"]);
});
