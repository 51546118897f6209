/* How predictable a token was: the target's probability of it, in four steps. */

export const LEVELS = [
  { name: "sure", from: 0.9, label: "p ≥ 0.9" },
  { name: "likely", from: 0.5, label: "0.5 – 0.9" },
  { name: "open", from: 0.1, label: "0.1 – 0.5" },
  { name: "surprise", from: 0, label: "p < 0.1" },
];

/** What has no p is "unknown". */
export function levelOf(p) {
  if (!Number.isFinite(p)) return "unknown";
  return LEVELS.find(({ from }) => p >= from)?.name ?? "surprise";
}
