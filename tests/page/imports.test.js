/* Scripts import downwards only: main -> the parts, which do not know each other -> shared -> vendor. */

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ASSETS = fileURLToPath(new URL("../../assets", import.meta.url));
const PARTS = ["chat", "models", "measure", "training", "frame"];
const IMPORT =
  /^(?:import|export)\s+(?:[\w*{}\s,]+?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']/gm;

/** The folder of a script, by its path within assets/; "main" for main.js. */
const folderOf = (file) => (file === "main.js" ? "main" : file.split("/")[0]);

/** Folders that a folder's scripts may import from, beside itself. */
function allowed(folder) {
  if (folder === "main") return [...PARTS, "shared"];
  if (PARTS.includes(folder)) return ["shared", "vendor"];
  return [];
}

/** What is wrong with the imports of a script, one line each. */
function violations(file, source) {
  const folder = folderOf(file);
  if (folder !== "main" && folder !== "shared" && !PARTS.includes(folder)) {
    return [`${file}: no part of the page has this folder`];
  }
  const found = [...source.matchAll(IMPORT)].map((match) => match[1] ?? match[2]);
  return found.flatMap((wanted) => {
    if (!wanted.startsWith(".")) return [`${file}: ${wanted} is not a file of the page`];
    const other = path.posix.normalize(path.posix.join(path.posix.dirname(file), wanted));
    if (other.startsWith("..")) return [`${file}: ${wanted} is outside of assets/`];
    const to = folderOf(other);
    const fine = to === folder || allowed(folder).includes(to);
    return fine ? [] : [`${file}: ${wanted} runs up or sideways`];
  });
}

function scripts() {
  const all = readdirSync(ASSETS, { recursive: true }).map((name) =>
    name.split(path.sep).join("/"),
  );
  return all.filter((name) => name.endsWith(".js") && !name.startsWith("vendor/"));
}

const read = (file) => readFileSync(path.join(ASSETS, file), "utf8");

test("every script imports downwards only", () => {
  const all = scripts();
  assert.deepEqual(
    ["main", ...PARTS, "shared"].filter((folder) => !all.some((file) => folderOf(file) === folder)),
    [],
  );
  assert.deepEqual(
    all.flatMap((file) => violations(file, read(file))),
    [],
  );
});

test("every imported file is there", () => {
  for (const file of scripts()) {
    for (const [, named, lazy] of read(file).matchAll(IMPORT)) {
      const other = path.join(ASSETS, path.dirname(file), named ?? lazy);
      assert.ok(existsSync(other), `${file}: ${named ?? lazy}`);
    }
  }
});

for (const [file, source] of [
  ["shared/dom.js", 'import { Chat } from "../chat/chat.js";'],
  ["shared/dom.js", 'export {\n  lexer,\n} from "../vendor/marked/marked.esm.js";'],
  ["chat/chat.js", 'import "../models/modelbar.js";'],
  ["models/models.js", 'import { mount } from "../main.js";'],
  ["measure/lab.js", 'const late = () => import("../chat/source.js");'],
  ["training/train.js", 'import { x } from "https://elsewhere.example/x.js";'],
  ["frame/log.js", 'import { x } from "../../tests/page/dom.js";'],
  ["loose.js", ""],
]) {
  test(`seen: ${file} with ${source || "no folder"}`, () => {
    assert.equal(violations(file, source).length, 1);
  });
}
