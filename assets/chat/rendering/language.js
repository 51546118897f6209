/* Which language a text is probably in, by its letters: for fonts, and for voices that read it.

   Chinese characters do not tell Chinese from Japanese: where no kana stands with them, the
   languages that the reader's browser asks for decide. Letters of Latin, Greek and Cyrillic are in
   every font, and of many languages: they tell nothing. */

const LOOKED_AT = 600; // characters: enough to tell, and a reply that grows is asked at each step
const KANA = /[\u3041-\u30fa\uff66-\uff9d]/;
const HAN = /\p{Script=Han}/u;
const SCRIPTS = [
  ["ko", /\p{Script=Hangul}/u],
  ["ar", /\p{Script=Arabic}/u],
  ["he", /\p{Script=Hebrew}/u],
  ["hi", /\p{Script=Devanagari}/u],
];

/** A tag for the attribute lang; null where the letters do not tell. */
export function languageOf(text, asked = null) {
  const part = text.slice(0, LOOKED_AT);
  if (KANA.test(part)) return "ja";
  const found = SCRIPTS.find(([, letters]) => letters.test(part));
  if (found) return found[0];
  return HAN.test(part) ? ofHan(asked) : null;
}

function ofHan(asked) {
  const first = (asked ?? navigator.languages).find((tag) => /^(zh|ja)\b/i.test(tag)) ?? "zh";
  if (/^ja/i.test(first)) return "ja";
  return /^zh-(hant|tw|hk|mo)/i.test(first) ? "zh-Hant" : "zh-Hans";
}

/** Marks an element with the language of its text. */
export function markLanguage(element, text) {
  const language = languageOf(text);
  if (language === null) element.removeAttribute("lang");
  else if (element.lang !== language) element.setAttribute("lang", language);
}
