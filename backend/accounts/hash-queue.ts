// Bounds how many password hashes are computed at once, and shares the turns between addresses. Invariant: who tries from one
// address waits behind its own attempts, never behind all attempts of another address; a waiting attempt whose client has gone is
// dropped. Used by login.ts.

interface Waiting {
  start(): void;
  drop(): void;
  alive(): boolean;
}

/** Thrown to an attempt whose client went away before its turn. */
export class AttemptDropped extends Error {
  override readonly name = "AttemptDropped";
}

export class HashQueue {
  readonly #limit: number;
  #running = 0;
  /** Insertion order is the order of turns: the address that was served goes to the end. */
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(limit = 2) {
    this.#limit = limit;
  }

  /** Runs `work` when it is this address's turn. Rejects with AttemptDropped when `alive()` is false by then. */
  async run<T>(address: string, alive: () => boolean, work: () => Promise<T>): Promise<T> {
    await this.#turn(address, alive);
    try {
      return await work();
    } finally {
      this.#running--;
      this.#next();
    }
  }

  #turn(address: string, alive: () => boolean): Promise<void> {
    return new Promise((start, reject) => {
      const queue = this.#waiting.get(address) ?? [];
      queue.push({ start, drop: () => reject(new AttemptDropped("the client went away")), alive });
      this.#waiting.set(address, queue);
      this.#next();
    });
  }

  #next(): void {
    while (this.#running < this.#limit) {
      const [address, queue] = this.#waiting.entries().next().value ?? [];
      if (address === undefined || queue === undefined) return;
      this.#waiting.delete(address);
      const attempt = queue.shift();
      if (queue.length > 0) this.#waiting.set(address, queue);
      if (!attempt) continue;
      if (!attempt.alive()) {
        attempt.drop();
        continue;
      }
      this.#running++;
      attempt.start();
    }
  }
}
