/* The text of a reply and the tokens it is made of. */

import { TEXT } from "../shared/wire.js";

export class Source {
  constructor() {
    this.text = "";
    this.tokens = [];
    this.starts = [];
  }

  push(tokens) {
    for (const token of tokens) {
      this.starts.push(this.text.length);
      this.tokens.push(token);
      // marked reads carriage returns as line ends; without them offsets stay true.
      this.text += token[TEXT].replaceAll("\r", "");
    }
  }

  /** Index of the token that holds the character at `offset`. */
  tokenAt(offset) {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Index of the first token that starts at or after `offset`. */
  firstFrom(offset) {
    let low = 0;
    let high = this.starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
