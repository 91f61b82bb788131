// Writes heartbeats to the database in batches, and only the newest of each node or host. Invariant: an organisation has at most one write
// at a time, limited in rows and followed by a pause, so its heartbeats do not delay those of other organisations; a heartbeat is answered
// when it is written or refused.
import { FairQueue } from "../../admission/fair-queue.ts";
import { Batcher } from "../../engines/batcher.ts";
import { ApiError } from "../../errors.ts";
import { MAX_BATCHED_HEARTBEATS, MAX_WAITING_HEARTBEATS } from "../tenant-limits.ts";

export interface HeartbeatBatcherOptions<Beat> {
  /** Writes the newest heartbeat of each node or host, and returns an error for each that it refuses. */
  write(beats: ReadonlyMap<string, Beat>, orgId: string): Promise<ReadonlyMap<string, ApiError>>;
  readonly maxRows?: number;
  /** Maximum number of waiting heartbeats per organisation. */
  readonly maxWaiting?: number;
}

/** Writes of different organisations at the same time. */
const CONCURRENT_WRITES = 4;
/** An organisation uses the database at most one fifth of the time. */
const PAUSE_PER_WRITE = 4;
const MAX_PAUSE_MS = 1000;
const RETRY_AFTER_S = 5;

interface BatchEntry<Beat> {
  readonly name: string;
  readonly beat: Beat;
  readonly heartbeats: number;
}

interface OrgHeartbeats<Beat> {
  waiting: number;
  readonly batcher: Batcher<BatchEntry<Beat>, ApiError | undefined>;
}

export class HeartbeatBatcher<Beat> {
  readonly #options: HeartbeatBatcherOptions<Beat>;
  readonly #queue = new FairQueue({ running: CONCURRENT_WRITES, perOrg: 1, waitingPerOrg: 1 });
  /** Organisations with waiting heartbeats, or in their pause. */
  readonly #orgs = new Map<string, OrgHeartbeats<Beat>>();

  constructor(options: HeartbeatBatcherOptions<Beat>) {
    this.#options = options;
  }

  /** Resolves when the heartbeat of a node or host is written. Throws ApiError over_quota at the limit, and the errors of `write`. */
  async add(orgId: string, name: string, beat: Beat): Promise<void> {
    const org = this.#orgs.get(orgId) ?? this.#newOrg(orgId);
    if (org.waiting >= (this.#options.maxWaiting ?? MAX_WAITING_HEARTBEATS)) {
      const message = "this organisation sends heartbeats faster than they can be stored: send this one again after Retry-After";
      throw new ApiError("over_quota", message, { retryAfterS: RETRY_AFTER_S });
    }
    org.waiting += 1;
    const refusal = await org.batcher.add({ name, beat, heartbeats: 1 }, name);
    if (refusal) throw refusal;
  }

  #newOrg(orgId: string): OrgHeartbeats<Beat> {
    const org: OrgHeartbeats<Beat> = {
      waiting: 0,
      batcher: new Batcher({
        write: (entries) => this.#write(orgId, org, entries),
        maxItems: this.#options.maxRows ?? MAX_BATCHED_HEARTBEATS,
        merge: (waiting, added) => ({ ...added, heartbeats: waiting.heartbeats + added.heartbeats }),
        pauseMs: (tookMs) => Math.min(MAX_PAUSE_MS, PAUSE_PER_WRITE * tookMs),
        onIdle: () => void this.#orgs.delete(orgId),
      }),
    };
    this.#orgs.set(orgId, org);
    return org;
  }

  async #write(orgId: string, org: OrgHeartbeats<Beat>, entries: readonly BatchEntry<Beat>[]): Promise<(ApiError | undefined)[]> {
    for (const { heartbeats } of entries) org.waiting -= heartbeats;
    const beats = new Map(entries.map(({ name, beat }) => [name, beat]));
    const refused = await this.#queue.run(orgId, undefined, () => this.#options.write(beats, orgId));
    return entries.map(({ name }) => refused.get(name));
  }
}
