// Stores a checkpoint in the leader's Lease: the resourceVersion up to which Kubernetes events were delivered. The next leader's collector
// continues from this version, so no event is missed. Invariants: as far as the collector's queue metrics show, the backend has
// acknowledged all events up to the checkpoint; an event that is read twice has the same bytes, so the backend stores it once.
import { ask } from "../../common/http.ts";
import type { Annotations } from "../identity/lease.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { EXPORTER } from "./config/collector-config.ts";
import { sumMetric } from "./supervision/queue-state.ts";
import type { Supervisor } from "./supervision/supervisor.ts";

/** Annotation of the Lease with the checkpoint, a resourceVersion. */
const ANNOTATION = "atherops.io/events-delivered";
/** Maximum time between the API server's report of an event and its entry in the collector's queue. */
export const SETTLED_MS = 4_000;

/** Timeout of `begin`. It is short because no agent collects events until `begin` returns. */
const BEGIN_WITHIN_MS = 1_000;

type EventsApi = Pick<KubernetesApi, "newestOfEvents">;

export type EventsCollector = Pick<Supervisor, "status" | "metricsUrl" | "eventsEnded" | "killAndRestart">;

export class EventsCheckpoint {
  readonly #api: EventsApi;
  readonly #isDelivered: (metricsUrl: string, signal: AbortSignal) => Promise<boolean>;
  #version = "";
  /** Becomes the checkpoint if, SETTLED_MS or more later, the queue of the same collector process is empty. */
  #next: { readonly version: string; readonly pid: number | null; readonly atMs: number } | undefined;

  constructor(api: EventsApi, isDelivered = eventsAreDelivered) {
    this.#api = api;
    this.#isDelivered = isDelivered;
  }

  /** The resourceVersion at which a collector that starts now begins; empty: it reads only new events. */
  get version(): string {
    return this.#version;
  }

  get annotations(): Annotations {
    return this.#version === "" ? {} : { [ANNOTATION]: this.#version };
  }

  /** Call before this agent becomes leader. Does not change the checkpoint in the Lease. */
  forget(): void {
    this.#next = undefined;
    this.#version = "";
  }

  /**
   * Call when this agent has become leader: continues at the checkpoint of the previous leader or, without one, with new events. The
   * collector cannot choose the start itself: it would first list all events of the cluster and, if that failed, watch no events until it
   * is restarted (k8sobjectsreceiver v0.146).
   */
  async begin(found: Annotations, signal: AbortSignal): Promise<void> {
    const version = found[ANNOTATION] ?? "";
    this.forget();
    const timeout = AbortSignal.any([signal, AbortSignal.timeout(BEGIN_WITHIN_MS)]);
    // The API server rejects a version that it does not know, and the collector then begins with new events.
    const newest = await this.#api.newestOfEvents(timeout).catch(() => version);
    const [checkpoint, latest] = [parseVersion(version), parseVersion(newest)];
    // If etcd was restored from a backup, the API server may be behind the checkpoint, and a watch from the checkpoint would report no
    // events until the server has caught up.
    if (latest !== undefined) this.#version = checkpoint !== undefined && checkpoint <= latest ? version : newest;
  }

  /** Advances the checkpoint; the leader calls it periodically. Throws errors of the API. `nowMs`: monotonic. */
  async follow(collector: EventsCollector, signal: AbortSignal, nowMs = performance.now()): Promise<void> {
    const { metricsUrl } = collector;
    const { pid } = collector.status();
    if (metricsUrl === undefined || this.#next?.pid !== pid) this.#next = undefined;
    if (metricsUrl === undefined) return;
    if (collector.eventsEnded) return this.#resume(collector, signal);
    if (this.#next) {
      if (nowMs - this.#next.atMs < SETTLED_MS || !(await this.#isDelivered(metricsUrl, signal))) return;
      this.#version = this.#next.version;
    }
    this.#next = undefined;
    const version = await this.#api.newestOfEvents(signal);
    if (parseVersion(version) !== undefined) this.#next = { version, pid, atMs: nowMs };
  }

  /**
   * If the collector has stopped watching events, an empty queue does not prove that they were delivered. Once the API server lists events
   * again, restarts the collector, which continues at the checkpoint.
   */
  async #resume(collector: EventsCollector, signal: AbortSignal): Promise<void> {
    this.#next = undefined;
    await this.#api.newestOfEvents(signal);
    collector.killAndRestart();
  }
}

/** Versions are increasing numbers. The API guarantees this since Kubernetes 1.35; in practice, it was always true. */
function parseVersion(version: string): bigint | undefined {
  return /^\d{1,19}$/.test(version) ? BigInt(version) : undefined;
}

/** Returns true if the collector's queue of events is empty. `signal` ends the request when this agent is no longer the leader. */
async function eventsAreDelivered(metricsUrl: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { text } = await ask(metricsUrl, { signal: AbortSignal.any([signal, AbortSignal.timeout(1000)]) });
    return sumMetric(text, "otelcol_exporter_queue_size", 'data_type="logs"', `exporter="${EXPORTER}"`) === 0;
  } catch {
    // Without a new checkpoint, events are at worst read again.
    return false;
  }
}
