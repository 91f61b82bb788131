// Heartbeats on their way into the database: those that come while some are being written go with the next write, a node's or host's
// newest word for all of its own. Invariant: one write of an organisation at a time, bounded in rows and followed by a pause, so that no
// key's heartbeats hold up another organisation's; a heartbeat is answered when it is written, or refused.
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import { FairTurns } from "../admission/fair-turns.ts";

export interface GatheredOptions<Beat> {
  /** Writes the newest heartbeat of each node or host; answers those that are refused, and why. */
  write(beats: ReadonlyMap<string, Beat>, orgId: string): Promise<ReadonlyMap<string, ApiError>>;
  /** Of one write. */
  rows?: number;
  /** Heartbeats of one organisation that wait. */
  waiting?: number;
}

const ROWS = 200;
const WAITING = 2000;
/** Writes at once, of different organisations. */
const WRITES = 4;
/** After each write: the store is for others four fifths of the time. */
const PAUSE_PER_WRITE = 4;
const MAX_PAUSE_MS = 1000;
const RETRY_AFTER_S = 5;

interface Entry<Beat> {
  beat: Beat;
  heartbeats: number;
  readonly written: PromiseWithResolvers<void>;
}

interface Org<Beat> {
  heartbeats: number;
  /** By node or host, in the order in which they came. */
  readonly entries: Map<string, Entry<Beat>>;
}

export class Gathered<Beat> {
  readonly #options: GatheredOptions<Beat>;
  readonly #turns = new FairTurns({ running: WRITES, perOrg: 1, waitingPerOrg: 1 });
  /** Those with a heartbeat that waits, and those that pause. */
  readonly #orgs = new Map<string, Org<Beat>>();

  constructor(options: GatheredOptions<Beat>) {
    this.#options = options;
  }

  /** `of` names the node or host. Resolves when it is written; throws ApiError over_quota where too many wait, and what `write` says. */
  async add(orgId: string, of: string, beat: Beat): Promise<void> {
    const known = this.#orgs.get(orgId);
    const org = known ?? { heartbeats: 0, entries: new Map() };
    if (org.heartbeats >= (this.#options.waiting ?? WAITING)) {
      const message = "this organisation's heartbeats come faster than they are kept; send this one again after Retry-After";
      throw new ApiError("over_quota", message, { retryAfterS: RETRY_AFTER_S });
    }
    const entry = org.entries.get(of) ?? { beat, heartbeats: 0, written: Promise.withResolvers<void>() };
    entry.beat = beat;
    entry.heartbeats += 1;
    org.heartbeats += 1;
    org.entries.set(of, entry);
    if (!known) {
      this.#orgs.set(orgId, org);
      void this.#writeAll(orgId, org);
    }
    await entry.written.promise;
  }

  async #writeAll(orgId: string, org: Org<Beat>): Promise<void> {
    while (org.entries.size > 0) {
      const startedAt = performance.now();
      await this.#turns.run(orgId, undefined, () => this.#writeSome(orgId, org));
      const tookMs = performance.now() - startedAt;
      await sleep(Math.min(MAX_PAUSE_MS, PAUSE_PER_WRITE * tookMs));
    }
    this.#orgs.delete(orgId);
  }

  /** Never throws: each heartbeat is told. */
  async #writeSome(orgId: string, org: Org<Beat>): Promise<void> {
    const some = [...org.entries].slice(0, this.#options.rows ?? ROWS);
    for (const [of, { heartbeats }] of some) {
      org.entries.delete(of);
      org.heartbeats -= heartbeats;
    }
    try {
      const refused = await this.#options.write(new Map(some.map(([of, { beat }]) => [of, beat])), orgId);
      for (const [of, { written }] of some) {
        const why = refused.get(of);
        if (why) written.reject(why);
        else written.resolve();
      }
    } catch (error) {
      for (const [, { written }] of some) written.reject(error);
    }
  }
}
