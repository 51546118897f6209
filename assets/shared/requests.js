/* Requests that overlap: whose answer may act, and which may begin. One token for each request. */

/** Requests of which only the latest counts: the answer to an older one must not draw. */
export class Latest {
  #number = 0;

  /** A new request begins. Its token is a question: is it still the latest? */
  begin() {
    this.#number += 1;
    return this.now();
  }

  /** A token of this moment: true until the next request begins. */
  now() {
    const mine = this.#number;
    return () => mine === this.#number;
  }
}

/** Asks the server; why it could not be done is drawn, unless another request has begun by then. */
export async function tell(requests, ask, drawProblem) {
  const isLatest = requests.begin();
  drawProblem("");
  try {
    await ask();
  } catch (error) {
    if (isLatest()) drawProblem(error.message);
  }
}

/** An action that is under way once: asking again meanwhile is the same request. */
export function once(action) {
  let running = null;
  return (...parameters) => {
    if (running) return running;
    let settle;
    running = new Promise((resolve) => (settle = resolve)); // the action itself may ask again
    settle((async () => action(...parameters))().finally(() => (running = null)));
    return running;
  };
}

/** Runs one action at a time; what is asked meanwhile is refused: its answer is false. */
export function single() {
  let busy = false;
  return async (action) => {
    if (busy) return false;
    busy = true;
    try {
      return await action();
    } finally {
      busy = false;
    }
  };
}

/** Requests that write: each begins when the one before it was answered, so the last one stays. */
export class InOrder {
  #last = Promise.resolve();

  run(action) {
    const turn = this.#last.then(action);
    this.#last = turn.catch(() => {}); // its own caller hears of it
    return turn;
  }
}
