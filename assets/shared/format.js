/* Numbers as people read them. */

export const NONE = "–";
export const FEW = 5; // tries of which a percentage would claim too much

/** Without the minus sign of what rounds to nothing. */
const fixed = (value, digits) => value.toFixed(digits).replace(/^-(0(?:\.0+)?)$/, "$1");

/** What is no number (nothing measured, nothing over nothing) is shown as a dash. */
const shown = (value, text) => (Number.isFinite(value) ? text(value) : NONE);

export const count = (value) => shown(value, (number) => number.toLocaleString("en-US"));
export const percent = (part) => shown(part, (value) => `${fixed(100 * value, 0)}%`);
export const times = (value) => shown(value, (factor) => `${fixed(factor, 2)}×`);
export const rate = (value) => shown(value, (number) => fixed(number, number < 100 ? 1 : 0));
export const length = (value) => shown(value, (number) => fixed(number, 2));

/** How many of some tries: as a percentage once there are enough of them. */
export function share(part, whole) {
  if (!whole) return NONE;
  return whole < FEW ? `${count(part)} of ${count(whole)}` : percent(part / whole);
}

export function probability(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value > 0 && value < 0.001) return value.toExponential(1);
  return fixed(value, 3);
}

export function bytes(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} GB`;
  return value >= 1e6 ? `${(value / 1e6).toFixed(0)} MB` : `${Math.ceil(value / 1e3)} kB`;
}

export function seconds(value) {
  if (value === null) return "";
  if (!Number.isFinite(value)) return NONE;
  const time = Math.max(0, value);
  if (time < 0.9995) return `${fixed(1000 * time, 0)} ms`;
  if (time < 59.5) return `${fixed(time, time < 9.95 ? 1 : 0)} s`;
  const whole = Math.round(time);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A message of the server, which starts small and has no full stop, to stand alone. */
export const sentence = (text) =>
  `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?$/, ".")}`;

/** Spaces and line ends made visible. */
export const visible = (text) =>
  text
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/^ +| +$/g, (run) => "·".repeat(run.length));

/** The same for drafts shown in the text: single spaces stay spaces. */
export const visibleInText = (text) => {
  const shown = text.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  return shown.trim() ? shown : shown.replace(/ /g, "·");
};
