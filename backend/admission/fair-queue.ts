// A queue for work that many organisations share. Limits apply in total and per organisation, to running work and to waiting work.
// Invariant: the next slot goes to the organisation with the least running work that has waited longest, so no organisation's backlog
// delays another organisation. Work whose caller left is dropped, and every slot is released.
import { ApiError } from "../errors.ts";

/** The slots of organisations, if replicas share them. */
export interface SlotSource {
  /** Slots of the organisation that this replica may use now. */
  heldBy(orgId: string): number;
  /** Reports the work of the organisation in this replica, after each change. Never throws. */
  report(orgId: string, running: number, waiting: number): void;
  /** `listener` is called when this replica may use more slots. */
  onMore(listener: () => void): void;
}

/** `kind`: the kind of work that the slots are for. */
export type ShareSlots = (kind: string, perOrg: number) => SlotSource;

export interface FairQueueOptions {
  /** Maximum of running work in total. */
  readonly running: number;
  /** Maximum of running work per organisation. Keep it below `running`, or one organisation can occupy every slot. */
  readonly perOrg: number;
  /** Set if replicas share the slots of an organisation; determines which of them this replica may use. */
  readonly slots?: SlotSource | undefined;
  /** Maximum of waiting work per organisation. */
  readonly waitingPerOrg: number;
  /** Maximum of waiting work in total. Beyond it, the organisation with the longest backlog loses its last entry. Default: unlimited. */
  readonly waitingInAll?: number;
  /** The message of QueueFullError: why work is refused, and what to do. */
  readonly fullMessage?: string;
  /** Retry-After of QueueFullError. Default 5. */
  readonly retryAfterS?: number;
}

/** The default message, for queues that are never full or whose callers replace it. */
const FULL = "too many requests of this organisation are waiting: try again";

/** The organisation's queue is full. */
export class QueueFullError extends ApiError {
  constructor({ fullMessage = FULL, retryAfterS = 5 }: FairQueueOptions) {
    super("unavailable", fullMessage, { retryAfterS });
  }
}

interface QueueEntry {
  /** Undefined: after all other entries of its organisation. */
  readonly rank: number | undefined;
  readonly start: () => void;
  readonly refuse: () => void;
}

interface OrgQueue {
  running: number;
  readonly waiting: QueueEntry[];
}

export class FairQueue {
  readonly #options: FairQueueOptions;
  /** In the order in which they are served. Organisations without running or waiting work are removed. */
  readonly #orgs = new Map<string, OrgQueue>();
  #running = 0;
  #waiting = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
    options.slots?.onMore(() => this.#startWaiting());
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Whether the organisation uses all slots that it has here: new work waits for its own work, not for other organisations. */
  isFull(orgId: string): boolean {
    const org = this.#orgs.get(orgId);
    return org !== undefined && org.running >= this.#limitOf(orgId);
  }

  /**
   * Runs `work` when a slot is free, and releases the slot when it settles. `work` itself must end when `signal` aborts. Throws
   * QueueFullError if the queue is full or the entry was dropped for others, and the signal's reason if it aborts before the start.
   *
   * `rank` orders the queue of the organisation: lower ranks first, within a rank the newest first, and a full queue drops its last entry.
   * Without a rank, the oldest is first and a full queue refuses new entries.
   */
  async run<T>(orgId: string, signal: AbortSignal | undefined, work: () => Promise<T>, rank?: number): Promise<T> {
    await this.#acquire(orgId, signal, rank);
    try {
      return await work();
    } finally {
      this.#release(orgId);
    }
  }

  async #acquire(orgId: string, signal: AbortSignal | undefined, rank: number | undefined): Promise<void> {
    signal?.throwIfAborted();
    const org = this.#orgs.get(orgId) ?? { running: 0, waiting: [] };
    const mayRun = this.#running < this.#options.running && org.running < this.#limitOf(orgId);
    if (!mayRun) this.#makeSpace(org, rank);
    this.#orgs.set(orgId, org);
    if (mayRun) {
      this.#start(orgId, org);
      return this.#changed(orgId, org);
    }
    const { promise: started, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => {
      org.waiting.splice(org.waiting.indexOf(entry), 1);
      this.#waiting -= 1;
      this.#changed(orgId, org);
      reject(signal?.reason);
    };
    const dequeue = (): void => {
      signal?.removeEventListener("abort", onAbort);
      this.#waiting -= 1;
    };
    const entry: QueueEntry = {
      rank,
      start: () => {
        dequeue();
        this.#start(orgId, org);
        resolve();
      },
      refuse: () => {
        dequeue();
        this.#changed(orgId, org);
        reject(new QueueFullError(this.#options));
      },
    };
    org.waiting.splice(findPosition(rank, org.waiting), 0, entry);
    this.#waiting += 1;
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#changed(orgId, org);
    await started;
  }

  /** Frees space for one more entry of `org`. Throws QueueFullError if no organisation has a longer backlog. */
  #makeSpace(org: OrgQueue, rank: number | undefined): void {
    if (org.waiting.length >= this.#options.waitingPerOrg) {
      if (findPosition(rank, org.waiting) === org.waiting.length) throw new QueueFullError(this.#options);
      return org.waiting.pop()?.refuse();
    }
    if (this.#waiting < (this.#options.waitingInAll ?? Number.POSITIVE_INFINITY)) return;
    let longest = org;
    for (const other of this.#orgs.values()) if (other.waiting.length > longest.waiting.length) longest = other;
    // A backlog that is only one entry longer would merely swap the two organisations.
    if (longest.waiting.length <= org.waiting.length + 1) {
      if (findPosition(rank, org.waiting) === org.waiting.length) throw new QueueFullError(this.#options);
      longest = org;
    }
    longest.waiting.pop()?.refuse();
  }

  #start(orgId: string, org: OrgQueue): void {
    this.#running += 1;
    org.running += 1;
    this.#moveToEnd(orgId, org);
  }

  #release(orgId: string): void {
    const org = this.#orgs.get(orgId) as OrgQueue;
    this.#running -= 1;
    org.running -= 1;
    this.#moveToEnd(orgId, org);
    this.#changed(orgId, org);
    this.#startWaiting();
  }

  #startWaiting(): void {
    while (this.#running < this.#options.running) {
      const next = this.#findNext();
      if (!next) return;
      next.waiting.shift()?.start();
    }
  }

  #limitOf(orgId: string): number {
    const { perOrg, slots } = this.#options;
    return Math.min(perOrg, slots?.heldBy(orgId) ?? perOrg);
  }

  #findNext(): OrgQueue | undefined {
    let next: OrgQueue | undefined;
    for (const [orgId, org] of this.#orgs) {
      if (org.waiting.length === 0 || org.running >= this.#limitOf(orgId)) continue;
      if (!next || org.running < next.running) next = org;
    }
    return next;
  }

  #moveToEnd(orgId: string, org: OrgQueue): void {
    this.#orgs.delete(orgId);
    this.#orgs.set(orgId, org);
  }

  #changed(orgId: string, org: OrgQueue): void {
    if (org.running === 0 && org.waiting.length === 0) this.#orgs.delete(orgId);
    this.#options.slots?.report(orgId, org.running, org.waiting.length);
  }
}

/** Where an entry of this rank is inserted. */
function findPosition(rank: number | undefined, waiting: readonly QueueEntry[]): number {
  const position = rank === undefined ? -1 : waiting.findIndex((other) => other.rank === undefined || other.rank >= rank);
  return position < 0 ? waiting.length : position;
}
