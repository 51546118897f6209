/* Draws the tokens of a growing text, and draws anew only what a longer text has changed.

   Text is added at its end, so of the tokens of the last drawing all but the last ones are the
   same. Those keep their elements; the last one goes on where it ended, if its kind can do that. */

import { kindOf } from "./markdown.js";

/**
 * Draw `tokens` at the end of `parent`. before: what the last call returned for the same place:
 * where it begins, and a record of each token drawn.
 */
export function drawAll(tokens, parent, painter, before = null) {
  const place = before ?? { first: parent.lastChild, begin: painter.state(), drawn: [] };
  const old = place.drawn;
  const same = countSame(old, tokens);
  if (same === tokens.length && same === old.length) return place;
  const drawn = old.slice(0, same);
  const last = same === old.length - 1 ? old[same] : null;
  if (last && same < tokens.length && grows(last, tokens[same], painter)) drawn.push(last);
  else if (old.length) goBack({ ...place, drawn }, parent, painter);
  for (const token of tokens.slice(drawn.length)) drawn.push(draw(token, parent, painter));
  return { ...place, drawn };
}

function countSame(drawn, tokens) {
  const most = Math.min(drawn.length, tokens.length);
  let same = 0;
  while (same < most && isSame(drawn[same].token, tokens[same])) same += 1;
  return same;
}

/** As if only these tokens had been drawn at the place. */
function goBack({ first, begin, drawn }, parent, painter) {
  const last = drawn.at(-1);
  removeAfter(parent, last ? last.end : first);
  painter.restore(last ? last.after : begin);
}

const isSame = (old, token) =>
  old.type === token.type &&
  old.raw === token.raw &&
  old.loose === token.loose &&
  old.text === token.text;

function draw(token, parent, painter) {
  const kind = kindOf(token);
  const start = token.unplaced ? -1 : painter.enter(token.raw);
  const opened = kind.open?.(token, painter, drawAll) ?? [null, parent];
  const [outer, inner] = Array.isArray(opened) ? opened : [opened, opened];
  if (outer) parent.append(outer);
  kind.paint?.(token, inner, painter);
  const painted = { state: painter.state(), end: inner.lastChild };
  const parts = kind.parts ? drawAll(kind.parts(token), inner, painter) : null;
  painter.leave(start, token.raw);
  const end = parent.lastChild;
  return { token, start, outer, inner, painted, parts, end, after: painter.state() };
}

/** True if the record became that of the longer token; else nothing was changed. */
function grows(record, token, painter) {
  const { token: old, start, outer, inner, parts } = record;
  const kind = kindOf(token);
  if (kind !== kindOf(old) || (kind.fits && !kind.fits(old, token))) return false;
  if (kind.parts && kind.fits) record.parts = drawAll(kind.parts(token), inner, painter, parts);
  else if (!kind.grow || !goesOn(kind, record, token, painter)) return false;
  painter.leave(start, token.raw);
  Object.assign(record, { token, after: painter.state() });
  if (!outer) record.end = record.parts ? endOf(record.parts) : record.painted.end;
  return true;
}

const endOf = ({ first, drawn }) => (drawn.length ? drawn.at(-1).end : first);

function goesOn(kind, { token: old, inner, painted }, token, painter) {
  painter.restore(painted.state);
  if (!kind.grow(old, token, inner, painter)) return false;
  Object.assign(painted, { state: painter.state(), end: inner.lastChild });
  return true;
}

function removeAfter(parent, node) {
  while (parent.lastChild !== node) parent.lastChild.remove();
}
