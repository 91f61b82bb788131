// The ServiceMonitors and PodMonitors of the cluster as scrape jobs of this node's collector. Invariants: jobs change at most once a minute,
// because a change restarts the collector; a monitor that is refused is logged once for each reason.
import { Outage } from "../../common/outage.ts";
import type { ObjectJson } from "../kubernetes/api.ts";
import type { Log } from "../log.ts";
import { ObjectWatch, type ObjectsApi } from "./object-watch.ts";
import type { Rule } from "./relabeling.ts";
import type { Monitor, Service } from "./monitor-objects.ts";
import { scrapeJobs } from "./scrape-jobs.ts";

export interface MonitorsOptions {
  readonly api: ObjectsApi;
  /** For endpoints that name none. */
  readonly intervalMs: number;
  readonly log: Log;
  readonly nowMs?: () => number;
}

const CHANGE_EVERY_MS = 60_000;
const MAX_SHOWN = 100;

const group = "/apis/monitoring.coreos.com/v1";

export class Monitors implements AsyncDisposable {
  readonly #options: MonitorsOptions;
  readonly #outage: Outage;
  readonly #watches: readonly [ObjectWatch<Monitor>, ObjectWatch<Monitor>, ObjectWatch<Service>];
  #jobs: readonly Rule[] = [];
  #changedMs = Number.NEGATIVE_INFINITY;
  /** Version of the objects from which the jobs were made. */
  #version = 0;
  #refused: ReadonlyMap<string, string> = new Map();
  #isKnown = false;

  constructor(options: MonitorsOptions) {
    this.#options = options;
    const { api, log } = options;
    this.#outage = new Outage({
      began: (error) =>
        log.warn({ event: "monitors.unknown", err: (error as Error).message }, "cannot watch ServiceMonitors and PodMonitors; retrying"),
      ended: () => log.info({ event: "monitors.known" }, "watching ServiceMonitors and PodMonitors has recovered"),
    });
    const report = { failed: (error: unknown) => this.#outage.failed(error), recovered: () => this.#outage.recovered() };
    const monitors = (kind: Monitor["kind"]): ObjectWatch<Monitor> =>
      new ObjectWatch({ api, path: `${group}/${kind.toLowerCase()}s`, slim: (object) => slimMonitor(kind, object), ...report });
    const services = new ObjectWatch({ api, path: "/api/v1/services", slim: slimService, ...report });
    this.#watches = [monitors("ServiceMonitor"), monitors("PodMonitor"), services];
    void Promise.all(this.#watches.map(({ known }) => known)).then(() => (this.#isKnown = true));
  }

  /** For `/status`. */
  status(): { readonly jobs: number; readonly refused: Readonly<Record<string, string>> } {
    return { jobs: this.#jobs.length, refused: Object.fromEntries([...this.#refused].slice(0, MAX_SHOWN)) };
  }

  jobs(): readonly Rule[] {
    const { intervalMs, nowMs = Date.now } = this.#options;
    const version = this.#watches.reduce((sum, watch) => sum + watch.version, 0);
    if (!this.#isKnown || version === this.#version || nowMs() - this.#changedMs < CHANGE_EVERY_MS) return this.#jobs;
    this.#version = version;
    const [serviceMonitors, podMonitors, services] = this.#watches;
    const { jobs, refused } = scrapeJobs([...serviceMonitors.objects, ...podMonitors.objects], services.objects, intervalMs);
    this.#report(refused);
    if (JSON.stringify(jobs) === JSON.stringify(this.#jobs)) return this.#jobs;
    this.#changedMs = nowMs();
    this.#jobs = jobs;
    return jobs;
  }

  #report(refused: ReadonlyMap<string, string>): void {
    for (const [monitor, reason] of refused) {
      if (this.#refused.get(monitor) !== reason)
        this.#options.log.warn({ event: "monitors.refused", monitor, reason }, "a monitor is not scraped, or not all of its endpoints");
    }
    this.#refused = refused;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#watches.map((watch) => watch[Symbol.asyncDispose]()));
  }
}

function slimMonitor(kind: Monitor["kind"], { metadata, spec }: ObjectJson): Monitor {
  const { name, namespace = "", labels } = metadata;
  return { kind, metadata: { name, namespace, ...(labels && { labels }) }, spec: spec ?? {} };
}

function slimService({ metadata, spec }: ObjectJson): Service {
  const { name, namespace = "", labels } = metadata;
  const { selector, ports } = (spec ?? {}) as Service["spec"];
  return { metadata: { name, namespace, ...(labels && { labels }) }, spec: { ...(selector && { selector }), ...(ports && { ports }) } };
}
