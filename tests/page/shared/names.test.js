/* Names of drafters and models: as the server tells them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { learnNames, nameOf, onNames } from "../../../assets/shared/names.js";

test("something is called as the server told, else as it is written", () => {
  learnNames({ "model:small": "Small 30M", starter: "SmolLM2 135M" });
  assert.deepEqual(
    ["model:small", "starter", "vote(ngram,x)", "constructor", "__proto__"].map(nameOf),
    ["Small 30M", "SmolLM2 135M", "vote(ngram,x)", "constructor", "__proto__"],
  );
});

test("what shows names hears of new ones, and of nothing else", () => {
  let heard = 0;
  onNames(() => heard++);
  learnNames({ "model:small": "Small 30M" });
  learnNames(undefined); // an event that names nothing
  assert.equal(heard, 0);
  learnNames({ "model:late": "Late" });
  assert.deepEqual([heard, nameOf("model:late")], [1, "Late"]);
  learnNames({ "model:late": "Later" });
  assert.deepEqual([heard, nameOf("model:late")], [2, "Later"]);
});
