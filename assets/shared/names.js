/* What drafters and models are called: the server tells it with whatever names them. */

const names = new Map();

const listeners = [];

/** table: names by expression of a drafter or id of a model. */
export function learnNames(table = {}) {
  const news = Object.entries(table).filter(([text, name]) => names.get(text) !== name);
  for (const [text, name] of news) names.set(text, name);
  if (news.length) for (const listener of listeners) listener();
}

/** For what shows names: they may change after it was drawn. */
export function onNames(listener) {
  listeners.push(listener);
}

export function nameOf(text) {
  return names.get(text) ?? text;
}
