// What is collected once for a whole cluster: its state and its events, by a collector of its own, beside that of the node. Invariants: one
// runs in the cluster at a time, that of the agent which holds the Lease; it has ended before another agent may take the Lease; neither its
// start nor its end touches the collector of the node.
//
// Not the collector's own k8s_leader_elector (v0.149): a receiver that registers when it already leads is never stopped again, so that two
// collect; k8sobjects closes a closed channel when it loses the lead twice; and its start fails, with all of the node's telemetry, while the
// API server is away.
import { Loop } from "../common/loop.ts";
import { Outage } from "../common/outage.ts";
import type { Lease, LeaseTiming } from "../identity/lease.ts";
import type { Log } from "../log.ts";
import type { CollectorStatus, Supervisor } from "./supervisor.ts";

/** Short, so that the loss of a node is a gap of half a minute. */
export const COLLECTION_LEASE: LeaseTiming = { durationMs: 10_000, renewDeadlineMs: 7_000, renewEveryMs: 2_000 };
/** From the end of the term to KILL: with the deadline it stays below the Lease's duration. */
export const STOP_GRACE_MS = 2_000;
/** Longer than the Lease lasts, so that the second look at a dead holder takes it. Each node asks so often: one small read. */
const LOOK_EVERY_MS = 10_200;
const JITTER_MS = 400;

export interface ClusterCollectorOptions {
  readonly lease: Pick<Lease, "tryAcquire">;
  /** Of a term; disposed at its end. */
  readonly supervisor: () => Supervisor;
  readonly config: string;
  readonly log: Log;
  readonly lookEveryMs?: number;
}

export interface ClusterCollectorStatus {
  readonly leads: boolean;
  /** While it leads. */
  readonly collector: CollectorStatus | undefined;
}

export class ClusterCollector implements AsyncDisposable {
  readonly #options: ClusterCollectorOptions;
  readonly #loop: Loop;
  #supervisor: Supervisor | undefined;

  constructor(options: ClusterCollectorOptions) {
    this.#options = options;
    const { log, lookEveryMs = LOOK_EVERY_MS } = options;
    const outage = new Outage({
      began: (message) => log.warn({ err: message }, "cannot take part in collecting for the cluster; retrying"),
      ended: () => log.info("taking part in collecting for the cluster has recovered"),
    });
    const step = async (signal: AbortSignal): Promise<number> => {
      await this.#lead(signal);
      outage.recovered();
      return lookEveryMs + Math.random() * JITTER_MS;
    };
    // Safe: whoever can reach the API server collects meanwhile.
    this.#loop = new Loop({ step, failed: (error) => outage.failed((error as Error).message) });
  }

  status(): ClusterCollectorStatus {
    return { leads: this.#supervisor !== undefined, collector: this.#supervisor?.status() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /** One look; where the Lease is free, until the term ends. */
  async #lead(signal: AbortSignal): Promise<void> {
    const { lease, config, log } = this.#options;
    await using term = await lease.tryAcquire(signal);
    if (!term) return;
    log.info("this agent collects state and events of the cluster now");
    await using supervisor = this.#options.supervisor();
    this.#supervisor = supervisor;
    try {
      await supervisor.start(() => config);
      await aborted(term.signal);
    } finally {
      this.#supervisor = undefined;
      log.info("this agent does not collect state and events of the cluster any more");
    }
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
