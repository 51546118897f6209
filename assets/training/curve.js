/* Lines over time in an SVG: one for each draft position, drawn anew as points come. */

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640;
const HEIGHT = 200;
const EDGE = { left: 40, right: 12, top: 10, bottom: 24 };

export class Curve {
  /** label: what the picture is called for those who cannot see it */
  constructor(root, label) {
    this.svg = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve", role: "img" });
    this.svg.setAttribute("aria-label", label);
    this.label = label;
    root.append(this.svg);
  }

  /** points: [[seconds, [rate by position]], ...] in order */
  draw(points) {
    const last = points.at(-1);
    const most = Math.max(0.1, ...points.flatMap(([, rates]) => rates));
    const top = Math.ceil(most * 10) / 10;
    const first = points[0]?.[0] ?? 0;
    const span = Math.max(1e-9, (last?.[0] ?? 0) - first);
    const x = (at) => EDGE.left + ((at - first) / span) * (WIDTH - EDGE.left - EDGE.right);
    const y = (rate) => HEIGHT - EDGE.bottom - (rate / top) * (HEIGHT - EDGE.top - EDGE.bottom);
    const parts = gridLines(top, y);
    const positions = last ? last[1].length : 0;
    for (let position = 0; position < positions; position += 1) {
      const line = points.filter(([, rates]) => rates.length > position);
      const path = line.map(
        ([at, rates]) => `${x(at).toFixed(1)},${y(rates[position]).toFixed(1)}`,
      );
      const tone = `line line-${position % 6}`;
      parts.push(svg("polyline", { points: path.join(" "), class: tone }));
      const end = { cx: x(last[0]), cy: y(last[1][position]), r: 3, class: tone };
      parts.push(svg("circle", end));
    }
    this.svg.replaceChildren(...parts);
    const now = last
      ? last[1].map((rate) => `${(100 * rate).toFixed(0)}%`).join(", ")
      : "nothing yet";
    this.svg.setAttribute("aria-label", `${this.label}, now: ${now}`);
  }
}

function gridLines(top, y) {
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    const at = y(part * top);
    parts.push(
      svg("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: at, y2: at, class: "grid" }),
    );
    const text = svg("text", { x: EDGE.left - 6, y: at + 4, class: "mark" });
    text.textContent = `${Math.round(100 * part * top)}%`;
    parts.push(text);
  }
  const caption = svg("text", { x: WIDTH - EDGE.right, y: HEIGHT - 6, class: "mark" });
  caption.textContent = "time of training →";
  return [...parts, caption];
}

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
