/* Settings in and out of drafter expressions, whatever stands in their paths. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { compose, parse } from "../../../assets/models/tuning.js";

const CASES = [
  ["recycle", { tree: 24 }, "recycle:tree=24"],
  ["early-exit", { layers: "skip=1+2", siblings: true }, "tree(early-exit:skip=1+2)"],
  ['eagle3:"C:\\dir (1), x.gguf"', { tree: 16 }, 'eagle3:tree=16:"C:\\dir (1), x.gguf"'],
  ['medusa:"tree=4:x"', { tree: 8 }, 'medusa:tree=8:"tree=4:x"'],
  ['medusa:"tree=4:x"', {}, 'medusa:"tree=4:x"'],
  ['model:"/a), (b\n.gguf"', { siblings: true }, 'tree(model:"/a), (b\n.gguf")'],
  ['tli:"/say ""hi"":tree=3"', {}, 'tli:"/say ""hi"":tree=3"'],
];

for (const [value, settings, expression] of CASES) {
  test(`${JSON.stringify(expression)} is written and read`, () => {
    assert.equal(compose(value, settings), expression);
    assert.deepEqual(parse(expression), [value, settings]);
  });
}
