/* What is typed and not sent yet, kept for each conversation, or each message that is being edited,
   over a reload. */

const MOST = 50;
const NEW = "new";

export class Drafts {
  /** kept: as Kept. Pages share it: each change begins with what is there. */
  constructor(kept) {
    this.kept = kept;
  }

  get(conversation) {
    const wanted = String(conversation ?? NEW);
    return this.read().find(([key]) => key === wanted)?.[1] ?? "";
  }

  /** get and set of one of them. */
  of(key) {
    return { get: () => this.get(key), set: (text) => this.set(key, text) };
  }

  set(conversation, text) {
    if (this.get(conversation) === text) return;
    const changed = String(conversation ?? NEW);
    const others = this.read().filter(([key]) => key !== changed);
    const all = text ? [...others.slice(1 - MOST), [changed, text]] : others;
    this.kept.set(JSON.stringify(all));
  }

  /** Whatever is stored there: only pairs of texts count. */
  read() {
    let stored = null;
    try {
      stored = JSON.parse(this.kept.get() ?? "[]");
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    return Array.isArray(stored) ? stored.filter(isPair) : [];
  }
}

const isPair = (one) =>
  Array.isArray(one) && one.length === 2 && one.every((part) => typeof part === "string");
