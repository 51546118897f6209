/* What drafters and targets are called: everywhere as in the lists. app/names.py has the same
   rules, for what the server says of them. */

const KIND_NAMES = {
  ngram: "n-gram lookup",
  "early-exit": "Early exit",
  recycle: "Token recycling",
  mtp: "MTP layer",
};
const GROUPS = /^(first|best|vote|mixture|union|tree)\(([^]*)\)$/;
const HEADS = new Set(["medusa", "eagle", "eagle3"]);

const labels = new Map();

const listeners = [];

/** Takes over what the entries of lists are called. */
export function learnNames(options) {
  const news = options.filter(({ value, label }) => labels.get(value) !== label);
  for (const { value, label } of news) labels.set(value, label);
  if (news.length) for (const listener of listeners) listener();
}

/** For what shows names: they may be learned after it was drawn. */
export function onNames(listener) {
  listeners.push(listener);
}

export function modelName(id) {
  return labels.get(id) ?? fileName(id);
}

export function drafterName(expression) {
  const known = labels.get(expression);
  if (known !== undefined) return known;
  const group = GROUPS.exec(expression);
  if (group) {
    const names = members(group[2]).map(drafterName);
    return group[1] === "tree" ? `${names[0]} with siblings` : `${group[1]} of ${names.join(", ")}`;
  }
  const colon = expression.indexOf(":");
  const kind = colon < 0 ? expression : expression.slice(0, colon);
  const argument = colon < 0 ? "" : expression.slice(colon + 1);
  if (HEADS.has(kind)) return headsName(kind, argument);
  if (Object.hasOwn(KIND_NAMES, kind)) {
    const name = KIND_NAMES[kind];
    return argument ? `${name}, ${argument.replaceAll("tree=", "tree of ")}` : name;
  }
  return kind === "model" || kind === "tli" ? fileName(unquoted(argument)) : expression;
}

function headsName(kind, argument) {
  const [, nodes, rest] = /^(?:tree=(\d+)(?::|$))?([^]*)$/.exec(argument);
  const name = labels.get(rest ? `${kind}:${rest}` : kind) ?? (fileName(unquoted(rest)) || kind);
  return nodes ? `${name}, tree of ${nodes}` : name;
}

/** The members of a group, split at commas that are in no parentheses and no quotation marks. */
function members(inner) {
  const parts = [""];
  let depth = 0;
  let quoted = false;
  let closed = -2;
  for (const [index, character] of [...inner].entries()) {
    if (character === '"' && quoted) {
      quoted = false;
      closed = index;
    } else if (character === '"') {
      // Written twice it stands for itself: closed and opened again.
      quoted = index === closed + 1 || parts.at(-1).endsWith(":");
    }
    if (!quoted) depth += (character === "(") - (character === ")");
    if (character === "," && depth === 0 && !quoted) parts.push("");
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim());
}

function unquoted(argument) {
  return /^"[^]*"$/.test(argument) ? argument.slice(1, -1).replaceAll('""', '"') : argument;
}

const fileName = (reference) => reference.replace(/^[^]*[/\\]/, "").replace(/\.gguf$/, "");
