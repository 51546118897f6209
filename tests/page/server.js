/* A server whose answers come when the test says so, in any order. */

import { settle } from "./dom.js";

export class LateServer {
  constructor() {
    this.waiting = [];
    this.asked = [];
  }

  /** As Connection.call. */
  call = (action, args = {}) =>
    new Promise((resolve, reject) => {
      this.asked.push([action, args]);
      this.waiting.push({ action, args, resolve, reject });
    });

  /** Answers the oldest request of this action that waits, or that number of them. */
  async answer(action, result, number = 0) {
    this.take(action, number).resolve(result);
    await settle();
  }

  async refuse(action, message = "no", number = 0) {
    this.take(action, number).reject(new Error(message));
    await settle();
  }

  take(action, number) {
    const request = this.waiting.filter((one) => one.action === action)[number];
    if (!request) throw new Error(`nobody waits for ${action}: ${JSON.stringify(this.asked)}`);
    this.waiting.splice(this.waiting.indexOf(request), 1);
    return request;
  }

  count(action) {
    return this.asked.filter(([asked]) => asked === action).length;
  }
}
