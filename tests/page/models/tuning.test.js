/* Settings of single drafters: what the server sent as chosen comes back as it was, or as it is set. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Tuning } from "../../../assets/models/tuning.js";
import { newPage } from "../dom.js";

const RECYCLE = { value: "recycle", tree: 24, layers: "", siblings: false };
const ODD = { value: 'tree(model:"/a), (b".gguf")', tree: 0, layers: "", siblings: true };
const OPTIONS = [
  { value: "recycle", label: "Token recycling", tuning: ["tree"] },
  { value: "early-exit", label: "Early exit", tuning: ["layers", "siblings"] },
  { value: "ngram", label: "n-gram lookup", tuning: [] },
];

let tuning, changes;

beforeEach(() => {
  newPage();
  changes = 0;
  tuning = new Tuning(() => (changes += 1));
});

function set(control, value) {
  const input = tuning.element.querySelector(`[data-tuning='${control}']`);
  if (typeof value === "boolean") input.checked = value;
  else input.value = value;
  input.dispatchEvent(new window.Event("change"));
}

test("what was chosen comes back, whatever stands in its value", () => {
  assert.deepEqual(tuning.adopt([RECYCLE, ODD]), [RECYCLE.value, ODD.value]);
  assert.deepEqual(tuning.chosen([ODD.value, "recycle"]), [ODD, RECYCLE]);
  assert.deepEqual(tuning.chosen(["ngram"]), [
    { value: "ngram", tree: 0, layers: "", siblings: false },
  ]);
});

test("chosen without settings, a drafter has none", () => {
  tuning.adopt([RECYCLE]);
  assert.equal(tuning.isSet("recycle"), true);
  tuning.adopt([{ value: "recycle" }]);
  assert.equal(tuning.isSet("recycle"), false);
});

test("the controls show what is set, and change it in the order that the server has", () => {
  tuning.adopt([RECYCLE]);
  tuning.draw(OPTIONS, ["recycle", "early-exit", "ngram"]);
  assert.equal(tuning.element.querySelector("[data-tuning='recycle tree']").value, "24");
  assert.equal(tuning.element.querySelectorAll("fieldset").length, 2);
  set("early-exit siblings", true);
  set("early-exit layers", " skip=10 + 13 ");
  set("recycle tree", "0");
  set("early-exit layers", "skip=every"); // not taken over
  assert.equal(
    JSON.stringify(tuning.chosen(["recycle", "early-exit"])),
    JSON.stringify([
      { value: "recycle", tree: 0, layers: "", siblings: false },
      { value: "early-exit", tree: 0, layers: "skip=10+13", siblings: true },
    ]),
  );
  assert.equal(changes, 3);
});
