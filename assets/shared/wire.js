/* Tokens as the server sends them (app/wire.py), and the branches of rejected drafts. */

/** Wire token: [text, kind, drafter, p, q, depth, rejected?]. */
export const TEXT = 0;
export const KIND = 1;
export const DRAFTER = 2;
export const TARGET_P = 3;
export const DRAFT_Q = 4;
export const DEPTH = 5;
export const REJECTED = 6;

/** Of a rejected draft: the place, among those of its token, of the one it follows. */
const FOLLOWS = 5;

/** Given to the reply, not drawn: a token of the marker that ends a thought. Text that was not
    written by a model here has no p either. */
export function isGiven(token) {
  return token[KIND] === "p" && token[TARGET_P] === null && token[TEXT] === "";
}

/** The drafts that lead to number `number` of `rejected`, and that one itself. */
export function branchOf(rejected, number) {
  const branch = [];
  for (let at = number; at !== undefined; at = rejected[at][FOLLOWS]) branch.unshift(rejected[at]);
  return branch;
}

/** Every branch as a whole: the paths to the drafts that nothing follows. */
export function branches(rejected) {
  const followed = new Set(rejected.map((one) => one[FOLLOWS]));
  const ends = rejected.map((_, number) => number).filter((number) => !followed.has(number));
  return ends.map((number) => branchOf(rejected, number));
}

/** How a draft stands to the one shown before it: its "next", a new "branch", or a "fork". */
export function joint(rejected, number) {
  const follows = rejected[number][FOLLOWS];
  if (follows === undefined) return number === 0 ? "first" : "branch";
  return follows === number - 1 ? "next" : "fork";
}

/** The drafts that follow number `number`, in their order. */
export function followers(rejected, number) {
  const there = rejected[number];
  return rejected.filter((one, at) => at !== number && branchOf(rejected, at).includes(there));
}

/** Number of a token among all of its reply. at: among its part's. reasoning: see app/thoughts.py. */
export function wireNumber(at, isThought, reasoning) {
  const { from = 0, to = 0 } = reasoning ?? {};
  if (isThought) return from + at;
  return at < from ? at : at + (to - from);
}
