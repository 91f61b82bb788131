// Stores up to where the cluster's events were delivered, in the Lease that the collecting agent holds. The next collector continues there,
// so no events are missed in between. Invariants: the checkpoint never passes what the backend has acknowledged, as far as the collector's
// queue shows; an event that is read twice has the same bytes, so the backend stores it once.
import { ask } from "../../common/http.ts";
import type { Annotations } from "../identity/lease.ts";
import { EXPORTER } from "./config/collector-config.ts";
import type { Supervisor } from "./supervision/supervisor.ts";

/** A resourceVersion of events. */
const ANNOTATION = "atherops.io/events-delivered";
/** Longest time between the API server's report of an event and its entry in the collector's queue. */
export const SETTLED_MS = 4_000;

/** Limit of `begin`: no agent collects events until it returns. */
const BEGIN_WITHIN_MS = 1_000;

export interface EventsApi {
  /** The latest resourceVersion of the API server. */
  newestOfEvents(signal: AbortSignal): Promise<string>;
}

export type EventsCollector = Pick<Supervisor, "status" | "metricsUrl" | "eventsEnded" | "startAnew">;

export class EventsCheckpoint {
  readonly #api: EventsApi;
  readonly #isDelivered: (metricsUrl: string, signal: AbortSignal) => Promise<boolean>;
  #version = "";
  /** The version that counts as delivered once this collector's queue is found empty, SETTLED_MS or more later. */
  #next: { readonly version: string; readonly pid: number | null; readonly atMs: number } | undefined;

  constructor(api: EventsApi, isDelivered = eventsAreDelivered) {
    this.#api = api;
    this.#isDelivered = isDelivered;
  }

  /** Where a collector that starts now begins; empty: only new events. */
  get version(): string {
    return this.#version;
  }

  get annotations(): Annotations {
    return this.#version === "" ? {} : { [ANNOTATION]: this.#version };
  }

  /** Called before a term; the checkpoint in the Lease does not change. */
  forget(): void {
    this.#next = undefined;
    this.#version = "";
  }

  /**
   * Called at the beginning of a term, in which this agent holds the Lease: continues where the last term ended, otherwise from now on. The
   * collector does not choose the start itself: it would first list all events of the cluster, and if that failed, watch nothing until it
   * is restarted (k8sobjectsreceiver v0.146).
   */
  async begin(found: Annotations, signal: AbortSignal): Promise<void> {
    const version = found[ANNOTATION] ?? "";
    this.forget();
    const soon = AbortSignal.any([signal, AbortSignal.timeout(BEGIN_WITHIN_MS)]);
    // Safe: the API server refuses a version that it does not know, and the collector begins with new events.
    const newest = await this.#api.newestOfEvents(soon).catch(() => version);
    const [last, now] = [numberOf(version), numberOf(newest)];
    // After a restore from a backup, the API server may be behind the checkpoint; a watch from there would be silent until the server has
    // caught up.
    if (now !== undefined) this.#version = last !== undefined && last <= now ? version : newest;
  }

  /** One step of a term, run periodically. Throws errors of the API. `nowMs`: monotonic. */
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
    if (numberOf(version) !== undefined) this.#next = { version, pid, atMs: nowMs };
  }

  /**
   * If the collector stopped watching events, its empty queue does not prove that they were delivered. Once the API server lists events,
   * the collector is restarted and continues from the checkpoint.
   */
  async #resume(collector: EventsCollector, signal: AbortSignal): Promise<void> {
    this.#next = undefined;
    await this.#api.newestOfEvents(signal);
    collector.startAnew();
  }
}

/** Versions are increasing numbers: guaranteed by the API since Kubernetes 1.35, and true in practice since its first release. */
function numberOf(version: string): bigint | undefined {
  return /^\d{1,19}$/.test(version) ? BigInt(version) : undefined;
}

/** True if the collector reports that all its records were delivered. `signal` ends the wait at the end of a term. */
export async function eventsAreDelivered(metricsUrl: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { text } = await ask(metricsUrl, { signal: AbortSignal.any([signal, AbortSignal.timeout(1000)]) });
    const size = text
      .split("\n")
      .find(
        (line) => line.startsWith("otelcol_exporter_queue_size{") && line.includes('data_type="logs"') && line.includes(`"${EXPORTER}"`),
      );
    return size?.split(" ")[1] === "0";
  } catch {
    // Safe: events that may not have been delivered are read again.
    return false;
  }
}
