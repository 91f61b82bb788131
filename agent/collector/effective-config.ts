// Decides which configuration the collector runs, from the settings, remote configuration, COLLECTOR_CONFIG_FILE, the number of log files,
// and whether the node's pods are known. Invariants: changes are applied one after the other; the collector is restarted only if the rendered
// configuration differs; a configuration that it refused is not tried again; a collector that starts without knowing the pods does not read
// their logs; one that knows them is not affected by an outage of the Kubernetes API.
import { Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { Adjustment } from "./config/remote-config.ts";
import type { Log } from "../log.ts";
import type { Settings } from "../settings.ts";
import type { KnownPods } from "./known-pods.ts";
import { findPodLogProblem } from "./files/pod-log-links.ts";
import { configFromSettings, MANY_LOG_FILES } from "./config/config-from-settings.ts";
import { CollectorConfigError } from "./config/render.ts";
import type { NamespaceLogs } from "./config/fragments/pod-logs.ts";
import type { LogFiles } from "./files/log-files.ts";
import { withRotated } from "./files/log-paths.ts";
import type { Supervisor } from "./supervision/supervisor.ts";

/** The agent checks this often for a changed COLLECTOR_CONFIG_FILE, and for known pods. */
const CHECK_EVERY_MS = 10_000;
/** Checks take at most this share of the time: a tree of a million files is checked less often. */
const CHECKING_SHARE = 0.05;

export interface EffectiveConfigOptions {
  readonly settings: Settings;
  readonly supervisor: Pick<Supervisor, "start" | "apply" | "status">;
  readonly adjustment: Adjustment;
  readonly log: Log;
  /** Cluster agent only. */
  readonly knownPods?: KnownPods | undefined;
  /** Cluster agent only: false if the collector cannot ask the agent for pods. */
  readonly usesRelay?: boolean | undefined;
  /** Cluster agent only: changes from annotations of namespaces. */
  readonly policies?: { ofNamespaces(): readonly NamespaceLogs[] } | undefined;
  /** Host agent only. */
  readonly logFiles?: LogFiles | undefined;
  readonly checkEveryMs?: number;
}

export class EffectiveConfig implements AsyncDisposable {
  readonly #options: EffectiveConfigOptions;
  readonly #checkEveryMs: number;
  readonly #stop = new AbortController();
  /** Failures to apply a configuration, except refusals by the collector. */
  readonly #outage: Outage<string>;
  /** Failures of the Kubernetes API that leave the pods unknown. */
  readonly #unknownPods: Outage<string>;
  #adjustment: Adjustment;
  /** The configuration that the collector refused, or why it could not be rendered. */
  #refused: string | undefined;
  /** Number of open files for which the collector's poll interval was chosen. */
  #openLogFiles = 0;
  #loop: Loop | undefined;
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(options: EffectiveConfigOptions) {
    this.#options = options;
    this.#adjustment = options.adjustment;
    this.#checkEveryMs = options.checkEveryMs ?? CHECK_EVERY_MS;
    const { log } = options;
    this.#outage = new Outage({
      began: (message) =>
        log.error(
          { event: "collector.config_failed", err: message },
          "cannot apply a new collector configuration; keeping the previous one, retrying",
        ),
      ended: () => log.info({ event: "collector.config_recovered" }, "recovered: collector configurations can be applied"),
    });
    this.#unknownPods = new Outage({
      began: (why) => log.warn({ event: "pods.unknown" }, why),
      ended: () => log.info({ event: "pods.known" }, "recovered: the Kubernetes API answers, reading pod logs"),
    });
  }

  /** Starts the collector; throws like Supervisor.start. */
  async start(): Promise<void> {
    const { supervisor, logFiles } = this.#options;
    await this.#askForPods();
    await supervisor.start(async () => {
      await logFiles?.start(this.#logPaths(this.#adjustment));
      this.#openLogFiles = logFiles?.status().open ?? 0;
      return this.#render(this.#adjustment);
    });
    this.#loop = this.#watch();
    await this.#warnOfPodLogs();
  }

  async #warnOfPodLogs(): Promise<void> {
    const { cluster, signals } = this.#options.settings;
    if (!cluster || cluster.hostAccess === "none" || !signals.includes("logs")) return;
    const problem = await findPodLogProblem(cluster.podUid);
    if (problem) this.#options.log.warn({ event: "pods.logs_unreadable", advice: problem.advice }, `cannot read pod logs: ${problem.what}`);
  }

  /** Telemetry that is not collected for now, with the reason; undefined if everything is collected. */
  get waitsFor(): string | undefined {
    return this.#unknownPods.cause;
  }

  /** If the collector refuses the adjustment, the previous one is used again; throws CollectorConfigError. */
  async adjust(adjustment: Adjustment): Promise<void> {
    const { supervisor, logFiles } = this.#options;
    await this.#inOrder(async () => {
      // Files are opened before the new collector starts, and those of the old one stay open until it has ended.
      await logFiles?.follow([...new Set([...this.#logPaths(this.#adjustment), ...this.#logPaths(adjustment)])]);
      try {
        await supervisor.apply(await this.#render(adjustment));
        this.#adjustment = adjustment;
      } finally {
        await logFiles?.follow(this.#logPaths(this.#adjustment));
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#loop?.done;
    await this.#lastChange;
  }

  #watch(): Loop {
    const step = async (): Promise<number> => {
      let checkedMs = 0;
      await this.#inOrder(async () => (checkedMs = await this.#check()));
      return Math.max(this.#checkEveryMs, checkedMs / CHECKING_SHARE);
    };
    const failed = (error: unknown): void => this.#outage.failed((error as Error).message);
    return new Loop({ signal: this.#stop.signal, firstAfterMs: this.#checkEveryMs, step, failed });
  }

  /**
   * Queries the API only while pods are unknown or the collector is not running: a collector that waits for pods never becomes ready while
   * the API server is unavailable.
   */
  async #askForPods(): Promise<void> {
    const { knownPods, supervisor } = this.#options;
    if (!knownPods || (this.waitsFor === undefined && supervisor.status().state === "running")) return;
    const why = await knownPods.whyUnknown(this.#stop.signal);
    if (this.#stop.signal.aborted) return;
    if (why === undefined) this.#unknownPods.recovered();
    else this.#unknownPods.failed(why);
  }

  /** Empty while no logs are collected. */
  #logPaths(adjustment: Adjustment): string[] {
    const { host, signals: enabledSignals } = this.#options.settings;
    const { logPaths = host?.logPaths ?? [], signals = enabledSignals } = adjustment;
    return signals.includes("logs") ? logPaths.flatMap(withRotated) : [];
  }

  /** A new poll interval restarts the collector, so it grows only if there are many more files, and shrinks only at the next start. */
  #countLogFiles(): void {
    const open = this.#options.logFiles?.status().open ?? 0;
    if (open > 2 * Math.max(this.#openLogFiles, MANY_LOG_FILES)) this.#openLogFiles = open;
  }

  /** Returns how long the check itself took, in milliseconds. */
  async #check(): Promise<number> {
    await this.#askForPods();
    this.#countLogFiles();
    const startedAt = performance.now();
    let checkedMs = 0;
    let rendered: string | undefined;
    try {
      rendered = await this.#render(this.#adjustment);
      checkedMs = performance.now() - startedAt;
      if (rendered === this.#refused) return checkedMs;
      await this.#options.supervisor.apply(rendered);
      this.#refused = undefined;
      this.#outage.recovered();
    } catch (error) {
      if (!(error instanceof CollectorConfigError)) {
        // The current configuration stays in use, and the next check retries.
        this.#outage.failed((error as Error).message, (error as Error).message);
        return checkedMs;
      }
      // If the collector refused it, the supervisor has logged that; the current configuration stays.
      if (rendered === undefined && this.#refused !== error.message)
        this.#options.log.error(
          { event: "collector.config_rejected", err: error.message },
          "cannot render the collector configuration; keeping the previous one",
        );
      this.#refused = rendered ?? error.message;
    }
    return checkedMs;
  }

  async #render(adjustment: Adjustment): Promise<string> {
    const { settings, policies, usesRelay } = this.#options;
    if (settings.host) return configFromSettings(settings, { adjustment, openLogFiles: this.#openLogFiles });
    return configFromSettings(settings, {
      adjustment,
      knowsPods: this.waitsFor === undefined,
      namespaceLogs: policies?.ofNamespaces() ?? [],
      ...(usesRelay === false && { usesRelay: false }),
    });
  }

  #inOrder(change: () => Promise<unknown>): Promise<unknown> {
    const result = this.#lastChange.then(change);
    this.#lastChange = result.catch(() => undefined);
    return result;
  }
}
