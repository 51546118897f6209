/* Which language a text is marked with. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { languageOf, markLanguage } from "../../../assets/chat/rendering/language.js";
import { h } from "../../../assets/shared/dom.js";
import { newPage } from "../dom.js";

test("letters of one language tell it", () => {
  const texts = {
    ja: "モデルは次の語を予測する",
    ko: "모델은 다음 단어를 예측합니다",
    ar: "مرحبا بالعالم",
    he: "שלום עולם",
    hi: "नमस्ते दुनिया",
  };
  for (const [language, text] of Object.entries(texts)) {
    assert.equal(languageOf(`In other words: ${text}.`, []), language);
  }
});

test("Latin, Greek and Cyrillic letters, digits and signs tell nothing", () => {
  for (const text of ["A draft", "λόγος", "слово", "12 + 3 = 15", "😀 → ∞", "", "・ー"]) {
    assert.equal(languageOf(text, ["ja"]), null, text);
  }
});

test("Chinese characters without kana are what the reader asks for", () => {
  const text = "投機的解碼";
  assert.equal(languageOf(text, ["en-GB", "en"]), "zh-Hans");
  assert.equal(languageOf(text, ["de", "zh-TW", "ja"]), "zh-Hant");
  assert.equal(languageOf(text, ["zh-CN"]), "zh-Hans");
  assert.equal(languageOf(text, ["ja-JP", "zh"]), "ja");
  assert.equal(languageOf(`${text}は`, ["zh-TW"]), "ja");
});

test("an element that grows takes the language, and loses one that is no longer told", () => {
  newPage();
  const block = h("div");
  markLanguage(block, "So ");
  assert.equal(block.getAttribute("lang"), null);
  markLanguage(block, "So 予測する");
  assert.equal(block.getAttribute("lang"), "ja");
  markLanguage(block, "So");
  assert.equal(block.getAttribute("lang"), null);
});
