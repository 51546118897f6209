/* The words of the page, each explained once. */

export const KINDS = {
  a: {
    name: "accepted",
    meaning: "A drafter proposed this token and the target, which checks every one, kept it.",
  },
  c: {
    name: "correction",
    meaning:
      "The target rejected the draft here and chose this token itself, so that the text keeps " +
      "the target's own distribution.",
  },
  b: {
    name: "bonus",
    meaning:
      "Every draft of the round was kept, and the same pass of the target gave this one too.",
  },
  p: { name: "plain", meaning: "Written by the target alone, in a round without a draft." },
};

/** Of tokens that were given, see shared/wire.js. */
export const GIVEN = {
  name: "given",
  meaning: "Written without asking the model: the end of the thought.",
  unseen: "(a marker)",
};

/** Of text without a record: edited by the user, or of another program. */
export const UNRECORDED = {
  name: "text",
  meaning: "Edited by you, or from another program: how it was written is not known.",
};

export const REJECTED_MEANING = "A draft that the target did not keep. It is no part of the text.";

export const LEGEND = [
  ...["a", "c", "b", "p"].map((kind) => [KINDS[kind].name, KINDS[kind].meaning, kind]),
  [
    "rejected",
    "A draft the target did not keep. It is shown small and struck through where it was tried, " +
      "and never becomes part of the text: it is not copied either.",
    "ghost",
  ],
  ["target", "The model whose text you read. It verifies every token."],
  ["drafter", "Anything that proposes tokens for the target: a smaller model, or a lookup."],
  ["round", "Propose, verify, commit: one pass of the target."],
  ["acceptance rate", "Accepted drafts divided by the drafts that were verified."],
  [
    "mean accepted length",
    "Tokens written per round, the correction or bonus included. 1.00 is what plain decoding does.",
  ],
  ["draft position", "The place of a draft in its round: 1 is the first token proposed."],
  [
    "predictability",
    "A colour by p: how sure the target was of the word it wrote. At temperature 0 the first choice " +
      "counts as certain, p = 1, whatever it was before.",
  ],
  [
    "runway",
    "The row behind a reply that is being written: what was drafted for the last round, what of it " +
      "stayed, and what fell away.",
  ],
  ["p", "The target's probability of this token, after your temperature and truncation."],
  [
    "q",
    "The drafter's probability. A point mass: the drafter named one token and no probabilities.",
  ],
  [
    "where the time goes",
    "Draft: what the drafter took. Target: its passes over the drafts. Other: choosing, cutting " +
      "back and sending. Drafting pays while the draft share is small and many drafts are kept.",
  ],
  ["parked", "Rounds in which no draft was made because it would have cost more than it saves."],
  ["tokens per second", "All tokens of the reply divided by the time since its first round."],
];

export const FINISHES = {
  eos: "finished",
  length: "cut at the longest reply",
  context: "context full",
  cancelled: "stopped",
  interrupted: "interrupted",
  failed: "failed",
  edited: "edited by you",
};
