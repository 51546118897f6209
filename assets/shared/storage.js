/* What the browser keeps for the page. Where it refuses, it lasts as long as the page. */

export class Kept {
  /** page: as window. area: "localStorage" for all tabs, "sessionStorage" for this tab. */
  constructor(page, area, key) {
    this.page = page;
    this.area = area;
    this.key = key;
    this.refused = false;
    this.value = null;
  }

  get() {
    if (this.refused) return this.value;
    const stored = this.attempt((storage) => storage.getItem(this.key));
    return this.refused ? this.value : stored;
  }

  set(value) {
    this.value = value;
    if (!this.refused) this.attempt((storage) => storage.setItem(this.key, value));
  }

  /** Even naming the storage throws where pages may keep nothing. */
  attempt(step) {
    try {
      return step(this.page[this.area]);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      this.refused = true;
      return null;
    }
  }
}
