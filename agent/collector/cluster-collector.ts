// Collects the state and events of a whole cluster, with a collector that is separate from the node's. Invariants: only the agent that holds
// the Lease runs this collector; the collector ends before another agent can acquire the Lease; it does not affect the node's collector.
//
// The collector's own k8s_leader_elector (v0.149) is not used: a receiver that registers while it already leads is never stopped, so two
// collect; k8sobjects closes a closed channel if it loses the lead twice; and if the API server is unavailable, startup fails and stops all
// telemetry of the node.
import { backoffOf, DEFAULT_BACKOFF, Loop, pause, spread } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { Annotations, Lease, LeaseTerm, LeaseTiming } from "../identity/lease.ts";
import type { Log } from "../log.ts";
import { formatSlots, parseSlots, POLL_EVERY_MS, SignsOfLife, StandBy, withoutCandidates } from "./stand-by.ts";
import type { EventsCheckpoint } from "./events-checkpoint.ts";
import type { CollectorStatus, Supervisor } from "./supervision/supervisor.ts";

/** Short, so that losing a node leaves a gap of only half a minute. */
export const COLLECTION_LEASE: LeaseTiming = { durationMs: 10_000, renewDeadlineMs: 7_000, renewEveryMs: 2_000 };
/** Timeout of one request for the Lease, short enough to retry within the deadline after a connection broke silently. */
export const LEASE_REQUEST_MS = 3_500;
/** From TERM to KILL. Together with the renew deadline, it is shorter than the Lease's duration, even if the collector does not respond. */
export const STOP_GRACE_MS = 1_500;
const FOLLOW_EVENTS_EVERY_MS = 2_000;

interface ClusterCollectorOptions {
  readonly lease: Pick<Lease, "tryAcquire" | "view" | "annotate">;
  /** Identifies this agent among the candidates for the Lease. */
  readonly name: string;
  /** Created at the start of each term and disposed at its end. */
  readonly supervisor: () => Supervisor;
  readonly config: string;
  /** Checkpoint of the delivered events. */
  readonly events?: EventsCheckpoint | undefined;
  readonly log: Log;
}

export interface ClusterCollectorStatus {
  readonly leads: boolean;
  /** Set while this agent leads. */
  readonly collector: CollectorStatus | undefined;
}

export class ClusterCollector implements AsyncDisposable {
  readonly #options: ClusterCollectorOptions;
  readonly #standBy: StandBy;
  readonly #pollOutage: Outage<Error>;
  readonly #termOutage: Outage<Error>;
  readonly #loop: Loop;
  #failedTerms = 0;
  #supervisor: Supervisor | undefined;

  constructor(options: ClusterCollectorOptions) {
    this.#options = options;
    const { lease, name, log } = options;
    this.#standBy = new StandBy(lease, name);
    this.#pollOutage = new Outage({
      began: ({ message }) =>
        log.warn(
          { event: "cluster_collector.election_failed", err: message },
          "cannot take part in the leader election for cluster-wide collection, retrying",
        ),
      ended: () =>
        log.info(
          { event: "cluster_collector.election_recovered" },
          "recovered: taking part in the leader election for cluster-wide collection",
        ),
    });
    this.#termOutage = new Outage({
      began: ({ message }) => log.warn({ event: "cluster_collector.failed", err: message }, "cluster-wide collection failed, retrying"),
      ended: () => log.info({ event: "cluster_collector.recovered" }, "recovered: cluster-wide collection works"),
    });
    this.#loop = new Loop({ step: (signal) => this.#step(signal), failed: (error) => this.#pollOutage.failed(error as Error) });
  }

  status(): ClusterCollectorStatus {
    return { leads: this.#supervisor !== undefined, collector: this.#supervisor?.status() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    await this.#standBy.leave();
  }

  /** Polls the Lease once; if it is free, leads until the term ends. Returns how long to wait for the next poll. */
  async #step(signal: AbortSignal): Promise<number> {
    const { lease, events } = this.#options;
    // Other agents may have moved the checkpoint since this agent last led, so it is read from the Lease again.
    events?.forget();
    const signsOfLife = new SignsOfLife();
    const annotate = (current: Annotations): Annotations => this.#annotations(current, signsOfLife);
    let term: LeaseTerm | undefined;
    let pauseMs = spread(POLL_EVERY_MS);
    try {
      term = await lease.tryAcquire(signal, annotate);
      if (!term && lease.view) pauseMs = await this.#standBy.afterPoll(lease.view, signal);
      this.#pollOutage.recovered();
    } catch (error) {
      // While this agent cannot reach the API server, another agent collects.
      if (!signal.aborted) this.#pollOutage.failed(error as Error);
      return this.#standBy.afterFailure();
    }
    if (!term) return pauseMs;
    pauseMs = await this.#lead(term);
    this.#standBy.afterTerm();
    return pauseMs;
  }

  /** Annotations to write to the Lease while this agent holds it. */
  #annotations(current: Annotations, signsOfLife: SignsOfLife): Annotations {
    const slots = parseSlots(current);
    const candidates = withoutCandidates(slots, [this.#options.name, ...signsOfLife.gone(slots)]);
    return { ...formatSlots(candidates), ...this.#options.events?.annotations };
  }

  async #lead(acquiredTerm: LeaseTerm): Promise<number> {
    try {
      await using term = acquiredTerm;
      await this.#collect(term);
      return spread(POLL_EVERY_MS);
    } catch (error) {
      // The Lease is released, and another agent may succeed.
      this.#termOutage.failed(error as Error);
      return backoffOf(++this.#failedTerms, DEFAULT_BACKOFF);
    }
  }

  async #collect(term: LeaseTerm): Promise<void> {
    const { config, events, log } = this.#options;
    log.info({ event: "cluster_collector.started" }, "collecting cluster state and events");
    await events?.begin(term.found, term.signal);
    await using supervisor = this.#options.supervisor();
    this.#supervisor = supervisor;
    try {
      await supervisor.start(() => config, term.signal);
      this.#failedTerms = 0;
      this.#termOutage.recovered();
      await using _ = events && new Loop(followOptions(events, supervisor, log));
      await pause(undefined, term.signal);
    } finally {
      this.#supervisor = undefined;
      log.info({ event: "cluster_collector.stopped" }, "stopped collecting cluster state and events");
    }
  }
}

function followOptions(events: EventsCheckpoint, supervisor: Supervisor, log: Log): ConstructorParameters<typeof Loop>[0] {
  return {
    step: async (signal) => {
      await events.follow(supervisor, signal);
      return FOLLOW_EVENTS_EVERY_MS;
    },
    // The checkpoint in the Lease does not change, so the next collector reads a few more events twice.
    failed: (error) =>
      log.debug({ event: "cluster_collector.checkpoint_unknown", err: error }, "cannot read the checkpoint of delivered events"),
  };
}
