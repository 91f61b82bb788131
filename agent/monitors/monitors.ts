// Serves the cluster's ServiceMonitors and PodMonitors as scrape jobs to this node's collector, in the format of the OpenTelemetry Operator's
// target allocator, so that changes do not restart the collector. Invariants: a starting collector gets no jobs at first, because it would not
// start with a job that it rejects; jobs change at most every ten seconds; a refused monitor is logged once per reason.
import { Outage } from "../../common/outage.ts";
import type { ObjectJson } from "../kubernetes/api.ts";
import type { Log } from "../log.ts";
import type { NodePods } from "../pods/node-pods.ts";
import { MAX_NODE_TARGETS_CHARACTERS } from "../agent-limits.ts";
import { fairLimit } from "../kubernetes/kept-objects.ts";
import { type ForeignTarget, type Monitor, nameOf, type Service } from "./monitor-objects.ts";
import { ObjectWatch, type ObjectsApi } from "../kubernetes/object-watch.ts";
import { PodTargets } from "./pod-targets.ts";
import { OPT_OUT_LABEL, type ScrapeJob, scrapeJobs } from "./scrape-jobs.ts";
import { selectsPod } from "./selectors.ts";

interface MonitorsOptions {
  readonly api: ObjectsApi;
  readonly pods: Pick<NodePods, "pods" | "version">;
  /** Interval for endpoints that set none. */
  readonly intervalMs: number;
  /** Namespaces whose monitors may select pods in other namespaces. */
  readonly acrossNamespaces: readonly string[];
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly maxTargetsCharacters?: number;
}

const CHANGE_EVERY_MS = 10_000;
const MAX_SHOWN = 100;

const GROUP = "/apis/monitoring.coreos.com/v1";
const FOREIGN_TARGET = "is not scraped, because it can name addresses other than pods; use a PodMonitor or ServiceMonitor";
const JOBS_PATH = "/scrape_configs";
const TARGETS_PATH = /^\/jobs\/([^/]+)\/targets$/;

export class Monitors implements AsyncDisposable {
  readonly #options: MonitorsOptions;
  readonly #outage: Outage;
  readonly #watches: readonly [ObjectWatch<Monitor>, ObjectWatch<Monitor>, ObjectWatch<Service>, ...ObjectWatch<ForeignTarget>[]];
  #jobs: ReadonlyMap<string, ScrapeJob> = new Map();
  #changedMs = Number.NEGATIVE_INFINITY;
  /** Versions of the objects from which jobs and targets were built. */
  #version = 0;
  #podsVersion: string | undefined;
  #pods: readonly PodTargets[] = [];
  /** Pods and jobs whose omitted targets have been logged. */
  #truncated = new Set<string>();
  /** Characters of each job's targets when they were last requested. */
  #targetSizes = new Map<string, number>();
  #refused: ReadonlyMap<string, string> = new Map();
  #isKnown = false;
  #collectorStarts = true;

  constructor(options: MonitorsOptions) {
    this.#options = options;
    const { api, log } = options;
    this.#outage = new Outage({
      began: (error) =>
        log.warn({ event: "monitors.unknown", err: (error as Error).message }, "cannot watch ServiceMonitors and PodMonitors; retrying"),
      ended: () => log.info({ event: "monitors.known" }, "recovered: watching ServiceMonitors and PodMonitors"),
    });
    const report = { failed: (error: unknown) => this.#outage.failed(error), recovered: () => this.#outage.recovered() };
    const monitors = (kind: Monitor["kind"]): ObjectWatch<Monitor> =>
      new ObjectWatch({ api, path: `${GROUP}/${kind.toLowerCase()}s`, slim: (object) => slimMonitor(kind, object), ...report });
    const services = new ObjectWatch({ api, path: "/api/v1/services", slim: slimService, ...report });
    const foreign = (kind: ForeignTarget["kind"], version: string): ObjectWatch<ForeignTarget> =>
      new ObjectWatch({ api, path: `${GROUP}${version}/${kind.toLowerCase()}s`, slim: (object) => slimForeign(kind, object), ...report });
    const scraped = [monitors("ServiceMonitor"), monitors("PodMonitor"), services] as const;
    this.#watches = [...scraped, foreign("Probe", ""), foreign("ScrapeConfig", "alpha1")];
    // Probes and ScrapeConfigs are only reported: without permission to list them, monitors are still scraped.
    void Promise.all(scraped.map(({ known }) => known)).then(() => (this.#isKnown = true));
  }

  /** Reported by `/status`. */
  status(): { readonly jobs: number; readonly dropped: number; readonly refused: Readonly<Record<string, string>> } {
    const dropped = this.#watches.reduce((sum, watch) => sum + watch.dropped, 0);
    return { jobs: this.#jobs.size, dropped, refused: Object.fromEntries([...this.#refused].slice(0, MAX_SHOWN)) };
  }

  /** Call before each start of the collector. */
  collectorStarts(): void {
    this.#collectorStarts = true;
  }

  /** JSON for the collector: jobs by name, or the targets of one of them. Undefined for other paths. */
  answer(path: string): string | undefined {
    if (path === JOBS_PATH) {
      const jobs = this.#collectorStarts ? [] : [...this.jobs()];
      this.#collectorStarts = false;
      return JSON.stringify(Object.fromEntries(jobs.map(([name, { config }]) => [name, config])));
    }
    const [, name] = TARGETS_PATH.exec(path) ?? [];
    // The collector encodes a space as `+`.
    return name === undefined ? undefined : this.#targets(decodeURIComponent(name.replaceAll("+", " ")));
  }

  jobs(): ReadonlyMap<string, ScrapeJob> {
    const { intervalMs, acrossNamespaces, nowMs = Date.now } = this.#options;
    const version = this.#watches.reduce((sum, watch) => sum + watch.version, 0);
    if (!this.#isKnown || version === this.#version || nowMs() - this.#changedMs < CHANGE_EVERY_MS) return this.#jobs;
    this.#version = version;
    this.#changedMs = nowMs();
    const [serviceMonitors, podMonitors, services, ...reported] = this.#watches;
    const { jobs, refused } = scrapeJobs({
      monitors: [...serviceMonitors.objects, ...podMonitors.objects],
      services: services.objects,
      defaultIntervalMs: intervalMs,
      acrossNamespaces,
    });
    const foreign = reported.flatMap(({ objects }) => objects).filter(({ metadata }) => metadata.labels?.[OPT_OUT_LABEL] !== "false");
    this.#report(new Map([...refused, ...foreign.map((target) => [nameOf(target), FOREIGN_TARGET] as const)]));
    this.#jobs = jobs;
    this.#targetSizes = new Map([...this.#targetSizes].filter(([job]) => jobs.has(job)));
    return jobs;
  }

  #targets(job: string): string {
    const selector = this.#jobs.get(job)?.pods;
    if (!selector) return "[]";
    const { pods, log } = this.#options;
    if (pods.version !== this.#podsVersion) {
      this.#pods = [...pods.pods].map((pod) => new PodTargets(pod));
      this.#truncated = this.#truncated.intersection(new Set([...this.#pods.map(({ path }) => path), ...this.#jobs.keys()]));
      this.#podsVersion = pods.version;
    }
    const selected = this.#pods.filter((pod) => selectsPod(selector, pod));
    const groups = selected.flatMap((pod) => pod.groups);
    for (const { isTruncated, path: pod } of selected) {
      if (!isTruncated || this.#truncated.has(pod)) continue;
      this.#truncated.add(pod);
      log.warn({ event: "monitors.pod_truncated", pod }, "the labels and ports of a pod are too large, not all its ports are scraped");
    }
    const fitting = this.#limitTargets(job, groups);
    if (fitting.length < groups.length && !this.#truncated.has(job)) {
      this.#truncated.add(job);
      log.warn({ event: "monitors.targets_truncated", job }, "the targets of all jobs are too large, not all pods of this job are scraped");
    }
    return `[${fitting.join()}]`;
  }

  /** Jobs share the limit of all targets fairly, so that a job with many or large pods does not displace others. */
  #limitTargets(job: string, groups: readonly string[]): readonly string[] {
    const { maxTargetsCharacters = MAX_NODE_TARGETS_CHARACTERS } = this.#options;
    const size = groups.reduce((sum, group) => sum + group.length, 0);
    this.#targetSizes.set(job, size);
    let remaining = fairLimit(this.#targetSizes.values(), maxTargetsCharacters);
    return size <= remaining ? groups : groups.filter((group) => (remaining -= group.length) >= 0);
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

function slimForeign(kind: ForeignTarget["kind"], { metadata }: ObjectJson): ForeignTarget {
  const { name, namespace = "", labels } = metadata;
  return { kind, metadata: { name, namespace, ...(labels && { labels }) } };
}

function slimService({ metadata, spec }: ObjectJson): Service {
  const { name, namespace = "", labels } = metadata;
  const { selector, ports } = (spec ?? {}) as Service["spec"];
  return { metadata: { name, namespace, ...(labels && { labels }) }, spec: { ...(selector && { selector }), ...(ports && { ports }) } };
}
