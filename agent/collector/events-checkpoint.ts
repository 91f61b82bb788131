// Up to where the cluster's events are delivered, kept in the Lease under which one agent collects them: the next collector begins there,
// and reads what happened in between. Invariants: the checkpoint is never further than what the backend has
// acknowledged, as far as the collector's queue shows; what is read twice is the same bytes, which the backend stores once.
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
  /** The resourceVersion that the API server has come to. */
  newestOfEvents(signal: AbortSignal): Promise<string>;
}

export type EventsCollector = Pick<Supervisor, "status" | "metricsUrl" | "eventsEnded" | "startAnew">;

export class EventsCheckpoint {
  readonly #api: EventsApi;
  readonly #isDelivered: (metricsUrl: string, signal: AbortSignal) => Promise<boolean>;
  #version = "";
  /** What is delivered once the queue of this collector is found empty, some time after. */
  #next: { readonly version: string; readonly pid: number | null; readonly atMs: number } | undefined;

  constructor(api: EventsApi, isDelivered = eventsAreDelivered) {
    this.#api = api;
    this.#isDelivered = isDelivered;
  }

  /** Where a collector that starts now begins; empty: with what happens from then on. */
  get version(): string {
    return this.#version;
  }

  get annotations(): Annotations {
    return this.#version === "" ? {} : { [ANNOTATION]: this.#version };
  }

  /** Before a term: the checkpoint in the Lease stays as it is. */
  forget(): void {
    this.#next = undefined;
    this.#version = "";
  }

  /**
   * At the beginning of a term, in which this agent holds the Lease: continues where the last term ended, else from now on. The collector
   * does not choose the start: it would list all events of the cluster first, and if that fails it watches nothing until it is restarted
   * (k8sobjectsreceiver v0.146).
   */
  async begin(found: Annotations, signal: AbortSignal): Promise<void> {
    const version = found[ANNOTATION] ?? "";
    this.forget();
    const soon = AbortSignal.any([signal, AbortSignal.timeout(BEGIN_WITHIN_MS)]);
    // Safe: a version that the API server does not know is refused by it, and the collector begins with what happens from then on.
    const newest = await this.#api.newestOfEvents(soon).catch(() => version);
    const [last, now] = [numberOf(version), numberOf(newest)];
    // After a restore from a backup, the API server may be behind the checkpoint, and a watch from there would be silent until it has caught up.
    if (now !== undefined) this.#version = last !== undefined && last <= now ? version : newest;
  }

  /** One step of a term; every now and then. Throws as the API does. `nowMs`: monotonic. */
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
   * The empty queue of a collector that stopped watching events does not prove that they are delivered. Once the API server lists events, it
   * is started again and continues from the checkpoint.
   */
  async #resume(collector: EventsCollector, signal: AbortSignal): Promise<void> {
    this.#next = undefined;
    await this.#api.newestOfEvents(signal);
    collector.startAnew();
  }
}

/** Versions are numbers that grow, by the API's own word since Kubernetes 1.35, and in fact since its first. */
function numberOf(version: string): bigint | undefined {
  return /^\d{1,19}$/.test(version) ? BigInt(version) : undefined;
}

/** True when the collector reports that it has handed over all its records. `signal` ends the wait at the end of a term. */
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
    // Safe: what is not known to be delivered is read again.
    return false;
  }
}
