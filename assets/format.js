/* Numbers as people read them. */

export const count = (value) => value.toLocaleString("en-US");
export const percent = (part) => (part === null ? "–" : `${(100 * part).toFixed(0)}%`);
export const times = (value) => (value === null ? "–" : `${value.toFixed(2)}×`);
export const rate = (value) => (value === null ? "–" : value.toFixed(value < 100 ? 1 : 0));
export const length = (value) => (value === null ? "–" : value.toFixed(2));

export function probability(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.001) return value.toExponential(1);
  return value.toFixed(3);
}

export function bytes(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} GB`;
  return value >= 1e6 ? `${(value / 1e6).toFixed(0)} MB` : `${Math.ceil(value / 1e3)} kB`;
}

export function seconds(value) {
  if (value === null) return "";
  if (value < 1) return `${(1000 * value).toFixed(0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(value % 60)} s`;
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
