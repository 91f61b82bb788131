// A queue for work that many organisations share. Limits apply in total and per organisation, to running work and to waiting work.
// Invariants: the next slot goes to the organisation with the least running work; of long work, then to one that used little in the last
// minute and waits for least, so no organisation's backlog delays another organisation. Half of the slots are kept for organisations that
// used little, and a slot is taken back from the organisation that used most when one of them waits. Work whose caller left is dropped, and
// every slot is released.
import { ApiError } from "../errors.ts";
import { mayTake, RecentUse, WINDOW_MS } from "./share.ts";

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
  /** Maximum of running work per organisation, if it is less than what the rule of share.ts allows. */
  readonly perOrg?: number;
  /** All work ends within a fraction of a second, so an organisation may use every slot as long as no other one waits. */
  readonly endsSoon?: boolean;
  /** Set if work ends when its signal aborts, so that its slot can be taken back: maximum of work that has not ended yet after that. */
  readonly takesBack?: number;
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

/** A slot of an organisation with nothing running is not waited for longer than this, if another organisation used far more. */
const PATIENCE_MS = 100;
const CHECK_MS = 50;
/** An organisation loses no slot for less use in the last minute than this. */
const LITTLE_USE_MS = 1000;
/** The use that each running or waiting request beyond the first counts as. */
const FURTHER_DEMAND_MS = 5000;
const RETRY_TAKEN_S = 5;

/** The organisation's queue is full. */
export class QueueFullError extends ApiError {
  constructor({ fullMessage = "too many requests of this organisation are waiting: try again", retryAfterS = 5 }: FairQueueOptions) {
    super("unavailable", fullMessage, { retryAfterS });
  }
}

interface Job {
  /** Until this time its use is counted. */
  countedMs: number;
  readonly takenBack: AbortController;
}

interface QueueEntry {
  readonly sinceMs: number;
  /** Undefined: after all other entries of its organisation. */
  readonly rank: number | undefined;
  readonly start: () => void;
  readonly refuse: () => void;
}

interface OrgQueue {
  /** Running work, without work whose slot was taken back. */
  readonly jobs: Set<Job>;
  /** Work whose slot was taken back and that has not ended yet. */
  ending: number;
  readonly waiting: QueueEntry[];
}

export class FairQueue {
  readonly #options: FairQueueOptions;
  /** In the order in which they are served. Organisations without running or waiting work are removed. */
  readonly #orgs = new Map<string, OrgQueue>();
  readonly #use = new RecentUse();
  /** Work whose slot was taken back and that has not ended yet. */
  #ending = 0;
  #running = 0;
  #waiting = 0;
  #checking: NodeJS.Timeout | undefined;

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
    return org !== undefined && org.jobs.size >= this.#limitOf(orgId);
  }

  /**
   * Runs `work` when a slot is free, and releases the slot when it settles. `work` itself must end when `signal` aborts, and with
   * `takesBack` when its own signal aborts, with that signal's reason. Throws QueueFullError if the queue is full or the entry was dropped
   * for others, and the signal's reason if it aborts before the start.
   *
   * `rank` orders the queue of the organisation: lower ranks first, within a rank the newest first, and a full queue drops its last entry.
   * Without a rank, the oldest is first and a full queue refuses new entries.
   */
  async run<T>(orgId: string, signal: AbortSignal | undefined, work: (takenBack: AbortSignal) => Promise<T>, rank?: number): Promise<T> {
    const job = await this.#acquire(orgId, signal, rank);
    try {
      return await work(job.takenBack.signal);
    } finally {
      this.#release(orgId, job);
    }
  }

  /** As `run`, for work that another function ends: resolves with the function that releases the slot, once. */
  async enter(orgId: string, signal: AbortSignal | undefined): Promise<() => void> {
    const job = await this.#acquire(orgId, signal, undefined);
    return () => this.#release(orgId, job);
  }

  async #acquire(orgId: string, signal: AbortSignal | undefined, rank: number | undefined): Promise<Job> {
    signal?.throwIfAborted();
    const org = this.#orgs.get(orgId) ?? { jobs: new Set<Job>(), ending: 0, waiting: [] };
    const mayRun = this.#mayStart(orgId, org);
    if (!mayRun) this.#makeSpace(org, rank);
    this.#orgs.set(orgId, org);
    if (mayRun) {
      const job = this.#start(orgId, org);
      this.#changed(orgId, org);
      return job;
    }
    const { promise: started, resolve, reject } = Promise.withResolvers<Job>();
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
      sinceMs: performance.now(),
      start: () => {
        dequeue();
        resolve(this.#start(orgId, org));
      },
      refuse: () => {
        dequeue();
        this.#changed(orgId, org);
        reject(new QueueFullError(this.#options));
      },
    };
    org.waiting.splice(findPosition(rank, org.waiting), 0, entry);
    this.#waiting += 1;
    if (this.#options.takesBack !== undefined) this.#checking ??= setInterval(() => this.#takeBack(), CHECK_MS).unref();
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#changed(orgId, org);
    return await started;
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

  #start(orgId: string, org: OrgQueue): Job {
    const job = { countedMs: performance.now(), takenBack: new AbortController() };
    this.#running += 1;
    org.jobs.add(job);
    this.#moveToEnd(orgId, org);
    return job;
  }

  #release(orgId: string, job: Job): void {
    this.#count(orgId, job, performance.now());
    const org = this.#orgs.get(orgId) as OrgQueue;
    if (org.jobs.delete(job)) {
      this.#running -= 1;
      this.#moveToEnd(orgId, org);
    } else {
      this.#ending -= 1;
      org.ending -= 1;
    }
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

  /** Ends the longest work of the organisation that used most, if one that has nothing running and used far less waits. */
  #takeBack(): void {
    const nowMs = performance.now();
    if (this.#waiting === 0) {
      clearInterval(this.#checking);
      this.#checking = undefined;
    }
    for (const [orgId, { jobs, ending, waiting }] of this.#orgs) {
      const isWaiting = jobs.size + ending === 0 && nowMs - (waiting[0]?.sinceMs ?? nowMs) >= PATIENCE_MS && this.#limitOf(orgId) > 0;
      if (!isWaiting || this.#ending >= (this.#options.takesBack ?? 0)) continue;
      const longest = this.#takeFromMostUsing(2 * this.#demandOf(orgId, nowMs) + LITTLE_USE_MS, nowMs);
      if (!longest) continue;
      this.#running -= 1;
      this.#ending += 1;
      longest.takenBack.abort(takenBack());
      this.#startWaiting();
    }
  }

  /** The longest work of the organisation with the highest demand, if that is more than `leastMs`. */
  #takeFromMostUsing(leastMs: number, nowMs: number): Job | undefined {
    let most: readonly [orgId: string, org: OrgQueue] | undefined;
    let mostMs = leastMs;
    for (const [orgId, org] of this.#orgs) {
      const mayLose = org.jobs.size > 0 && this.#usedMs(orgId, nowMs) > LITTLE_USE_MS;
      const demandMs = mayLose ? this.#demandOf(orgId, nowMs) : 0;
      if (demandMs > mostMs) [most, mostMs] = [[orgId, org], demandMs];
    }
    const longest = most?.[1].jobs.values().next().value;
    if (!most || !longest) return undefined;
    most[1].jobs.delete(longest);
    most[1].ending += 1;
    this.#count(most[0], longest, nowMs);
    this.#changed(...most);
    return longest;
  }

  /** What it used, and what it still wants: organisations with equal backlogs take nothing from each other, however little they used. */
  #demandOf(orgId: string, nowMs: number): number {
    const org = this.#orgs.get(orgId);
    const further = Math.max(0, (org ? org.jobs.size + org.waiting.length : 0) - 1);
    return this.#usedMs(orgId, nowMs) + further * FURTHER_DEMAND_MS;
  }

  #count(orgId: string, job: Job, nowMs: number): void {
    this.#use.add(orgId, nowMs - job.countedMs, nowMs);
    job.countedMs = nowMs;
  }

  /** Slot time in about the last minute, that of running work included. */
  #usedMs(orgId: string, nowMs: number): number {
    let usedMs = this.#use.of(orgId, nowMs);
    for (const { countedMs } of this.#orgs.get(orgId)?.jobs ?? []) usedMs += nowMs - countedMs;
    return usedMs;
  }

  #limitOf(orgId: string): number {
    const { running, perOrg = running, slots } = this.#options;
    return Math.min(perOrg, slots?.heldBy(orgId) ?? perOrg);
  }

  #mayStart(orgId: string, { jobs, ending }: OrgQueue): boolean {
    const { running: limit, endsSoon } = this.#options;
    if (this.#running >= limit || jobs.size >= this.#limitOf(orgId)) return false;
    if (endsSoon || limit === 1) return true;
    if (this.#running >= Math.ceil(limit / 2) && this.#usedMuch(orgId)) return false;
    return mayTake(1, { limit, used: this.#running, own: jobs.size + ending });
  }

  /** More than half of an equal share in the last minute. */
  #usedMuch(orgId: string): boolean {
    const equalShareMs = (this.#options.running * WINDOW_MS) / Math.max(1, this.#orgs.size);
    return this.#usedMs(orgId, performance.now()) > equalShareMs / 2;
  }

  /** The first organisation in this order gets the next slot. For short work, the order in which they wait is enough. */
  #orderOf(orgId: string, { jobs, ending, waiting }: OrgQueue): number[] {
    const own = jobs.size + ending;
    if (this.#options.takesBack === undefined) return [own];
    return [own, this.#usedMuch(orgId) ? this.#usedMs(orgId, performance.now()) : 0, waiting.length];
  }

  #findNext(): OrgQueue | undefined {
    let next: OrgQueue | undefined;
    let nextOrder: number[] = [];
    for (const [orgId, org] of this.#orgs) {
      if (org.waiting.length === 0 || !this.#mayStart(orgId, org)) continue;
      const order = this.#orderOf(orgId, org);
      const difference = order.map((value, index) => value - (nextOrder[index] ?? Number.POSITIVE_INFINITY)).find((each) => each !== 0);
      if (difference !== undefined && difference < 0) [next, nextOrder] = [org, order];
    }
    return next;
  }

  #moveToEnd(orgId: string, org: OrgQueue): void {
    this.#orgs.delete(orgId);
    this.#orgs.set(orgId, org);
  }

  #changed(orgId: string, org: OrgQueue): void {
    if (org.jobs.size + org.ending + org.waiting.length === 0) this.#orgs.delete(orgId);
    this.#options.slots?.report(orgId, org.jobs.size, org.waiting.length);
  }
}

function takenBack(): ApiError {
  const message = "this query was stopped, because another organisation waited and this one used most in the last minute; try again";
  return new ApiError("too_many_queries", message, { retryAfterS: RETRY_TAKEN_S });
}

/** Where an entry of this rank is inserted. */
function findPosition(rank: number | undefined, waiting: readonly QueueEntry[]): number {
  const position = rank === undefined ? -1 : waiting.findIndex((other) => other.rank === undefined || other.rank >= rank);
  return position < 0 ? waiting.length : position;
}
