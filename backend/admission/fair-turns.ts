// Turns for work that many organisations share: at most so much at once in all and for each organisation, the rest waits in a bounded
// queue of its organisation. Invariant: whoever has least under way and has waited longest is next, so that no queue of one organisation
// holds up another's; nobody waits for work whose caller has left, and every turn that was given comes back.

export interface FairTurnsOptions {
  /** At once, in all. */
  readonly running: number;
  /** At once, for one organisation. Below `running`, or one organisation may hold every turn. */
  readonly perOrg: number;
  /** Waiting, for one organisation. */
  readonly waitingPerOrg: number;
  /** Waiting, in all. Beyond it whoever has most waiting loses what came last. No bound when it is left out. */
  readonly waitingInAll?: number;
}

/** The organisation's queue is full: answer 429 or 503 with Retry-After. */
export class QueueFullError extends Error {
  constructor() {
    super("the queue of this organisation is full");
    this.name = "QueueFullError";
  }
}

interface Waiting {
  /** Undefined: behind all others of its organisation. */
  readonly rank: number | undefined;
  readonly start: () => void;
  readonly refuse: () => void;
}

interface Org {
  running: number;
  readonly waiting: Waiting[];
}

export class FairTurns {
  readonly #options: FairTurnsOptions;
  /** In the order in which they are to be served; those with nothing under way and nothing waiting are not in it. */
  readonly #orgs = new Map<string, Org>();
  #running = 0;
  #waiting = 0;

  constructor(options: FairTurnsOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Whether the organisation has all turns that it may have: one more waits for its own, and not for others'. */
  isFull(orgId: string): boolean {
    return (this.#orgs.get(orgId)?.running ?? 0) >= this.#options.perOrg;
  }

  /**
   * Runs `work` when it is its turn, and gives the turn back when it has settled; `work` itself must end when `signal` aborts. Throws
   * QueueFullError at once or when the place in the queue is lost to others, and the signal's reason when it aborts before the turn.
   *
   * `rank` orders the queue of the organisation: lower ranks first, within a rank the newest first, and a full queue drops its last entry.
   * Without a rank, the oldest is first and a full queue refuses new entries.
   */
  async run<T>(orgId: string, signal: AbortSignal | undefined, work: () => Promise<T>, rank?: number): Promise<T> {
    await this.#turn(orgId, signal, rank);
    try {
      return await work();
    } finally {
      this.#release(orgId);
    }
  }

  async #turn(orgId: string, signal: AbortSignal | undefined, rank: number | undefined): Promise<void> {
    signal?.throwIfAborted();
    const org = this.#orgs.get(orgId) ?? { running: 0, waiting: [] };
    const mayRun = this.#running < this.#options.running && org.running < this.#options.perOrg;
    if (!mayRun) this.#makeRoom(org, rank);
    this.#orgs.set(orgId, org);
    if (mayRun) return this.#start(orgId, org);
    const { promise: turn, resolve, reject } = Promise.withResolvers<void>();
    const leave = (): void => {
      org.waiting.splice(org.waiting.indexOf(waiting), 1);
      this.#waiting -= 1;
      this.#forgetIfIdle(orgId, org);
      reject(signal?.reason);
    };
    const over = (): void => {
      signal?.removeEventListener("abort", leave);
      this.#waiting -= 1;
    };
    const waiting: Waiting = {
      rank,
      start: () => {
        over();
        this.#start(orgId, org);
        resolve();
      },
      refuse: () => {
        over();
        this.#forgetIfIdle(orgId, org);
        reject(new QueueFullError());
      },
    };
    org.waiting.splice(positionOf(rank, org.waiting), 0, waiting);
    this.#waiting += 1;
    signal?.addEventListener("abort", leave, { once: true });
    await turn;
  }

  /** For one more of this organisation. Throws QueueFullError where nobody has more waiting than it. */
  #makeRoom(org: Org, rank: number | undefined): void {
    if (org.waiting.length >= this.#options.waitingPerOrg) {
      if (positionOf(rank, org.waiting) === org.waiting.length) throw new QueueFullError();
      return org.waiting.pop()?.refuse();
    }
    if (this.#waiting < (this.#options.waitingInAll ?? Number.POSITIVE_INFINITY)) return;
    let longest = org;
    for (const other of this.#orgs.values()) if (other.waiting.length > longest.waiting.length) longest = other;
    // One more than its own would only swap the two.
    if (longest.waiting.length <= org.waiting.length + 1) {
      if (positionOf(rank, org.waiting) === org.waiting.length) throw new QueueFullError();
      longest = org;
    }
    longest.waiting.pop()?.refuse();
  }

  #start(orgId: string, org: Org): void {
    this.#running += 1;
    org.running += 1;
    this.#moveToEnd(orgId, org);
  }

  #release(orgId: string): void {
    const org = this.#orgs.get(orgId) as Org;
    this.#running -= 1;
    org.running -= 1;
    this.#moveToEnd(orgId, org);
    this.#forgetIfIdle(orgId, org);
    this.#next()?.waiting.shift()?.start();
  }

  #next(): Org | undefined {
    let next: Org | undefined;
    for (const org of this.#orgs.values()) {
      if (org.waiting.length === 0 || org.running >= this.#options.perOrg) continue;
      if (!next || org.running < next.running) next = org;
    }
    return next;
  }

  #moveToEnd(orgId: string, org: Org): void {
    this.#orgs.delete(orgId);
    this.#orgs.set(orgId, org);
  }

  #forgetIfIdle(orgId: string, org: Org): void {
    if (org.running === 0 && org.waiting.length === 0) this.#orgs.delete(orgId);
  }
}

/** Where an entry of this rank is inserted. */
function positionOf(rank: number | undefined, waiting: readonly Waiting[]): number {
  const position = rank === undefined ? -1 : waiting.findIndex((other) => other.rank === undefined || other.rank >= rank);
  return position < 0 ? waiting.length : position;
}
