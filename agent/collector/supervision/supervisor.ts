// Keeps one collector running with the last configuration that it accepted. Invariants: a new configuration is validated before the running
// collector is stopped, and rolled back if the collector does not become ready with it; at most one collector of this agent runs; restarts
// after crashes back off exponentially with jitter, and the backoff is reset after a healthy minute; a hung collector is killed; a full or
// read-only disk does not stop a running collector; a damaged store does not prevent the collector from starting.
import { backoffOf, Loop, pause } from "../../../common/loop.ts";
import { reportEmptied, quarantineDamaged } from "./damaged-stores.ts";
import { ConfigFiles, validateCollectorConfig, ValidationUnavailableError } from "./config-files.ts";
import { endOrphans, forgetChild, recordChild } from "./orphan.ts";
import { CollectorProcess, type CollectorProcessOptions } from "./process.ts";
import { QueueSpace } from "./queue-space.ts";
import type { Rejection } from "./queue-state.ts";
import { QUEUE_BYTES_VARIABLE } from "../config/collector-config.ts";
import { CollectorConfigError } from "../config/render.ts";
import type { Signal } from "../../settings.ts";

export interface SupervisorOptions extends Omit<CollectorProcessOptions, "configFile"> {
  readonly stateDir: string;
  /** Called before each start, while no collector runs. Returns environment variables of this start. */
  readonly onStart?: () => Readonly<Record<string, string>>;
  readonly onExit?: () => void;
  readonly timing?: Partial<SupervisorTiming>;
  readonly random?: () => number;
}

export interface SupervisorTiming {
  readonly firstBackoffMs: number;
  readonly maxBackoffMs: number;
  /** A collector that has run this long counts as healthy, and its next crash as the first one. */
  readonly healthyAfterMs: number;
  /** If the collector is not ready within this time after a start, it is stopped. */
  readonly readyWithinMs: number;
  /** How often a running collector is probed, and the timeout of each probe. */
  readonly probeEveryMs: number;
  /**
   * After this many failed probes in a row, the collector counts as hung. A count, not a time, because a suspended machine sends no probes.
   */
  readonly hungAfter: number;
  /** How often the rejections of the disk queues are read; their disk space is read every `probeEveryMs`. */
  readonly queuesEveryMs: number;
  /** Minimum run time before a restart for more queue space; otherwise, anyone who can write to the disk could cause constant restarts. */
  readonly growAfterMs: number;
}

const SUPERVISOR_TIMING: SupervisorTiming = {
  firstBackoffMs: 1000,
  maxBackoffMs: 60_000,
  healthyAfterMs: 60_000,
  readyWithinMs: 60_000,
  probeEveryMs: 10_000,
  hungAfter: 6,
  queuesEveryMs: 1000,
  growAfterMs: 300_000,
};

/** A running collector is restarted if the space for its queues changed by this factor. */
const RESIZE_FACTOR = 2;
const MAX_SPACE_WAIT_MS = 15_000;

export interface CollectorStatus {
  readonly state: "stopped" | "starting" | "running" | "waiting";
  readonly pid: number | null;
  /** RFC 3339; when the state began. */
  readonly since: string;
  /** Restarts after a crash. */
  readonly restarts: number;
  /** Why the collector last ended unexpectedly, secrets masked. */
  readonly lastError: string | null;
  /** Why the newest configuration is not in use; null if it is. */
  readonly configError: string | null;
}

interface Watched {
  /** Why the agent killed it; undefined if it exited by itself or was stopped. */
  readonly killReason: string | undefined;
  readonly wasHealthy: boolean;
}

/** Resolves to whether the collector became ready with the configuration. */
type Readiness = PromiseWithResolvers<boolean>;

export class Supervisor implements AsyncDisposable {
  readonly #options: SupervisorOptions;
  readonly #timing: SupervisorTiming;
  readonly #files: ConfigFiles;
  #config: string | undefined;
  #process: CollectorProcess | undefined;
  #loop: Loop | undefined;
  #readiness = Promise.withResolvers<boolean>();
  #failures = 0;
  #status: CollectorStatus = { state: "stopped", pid: null, since: now(), restarts: 0, lastError: null, configError: null };

  /** Throws StateDirError. */
  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#timing = { ...SUPERVISOR_TIMING, ...options.timing };
    this.#files = new ConfigFiles(options.stateDir);
  }

  status(): CollectorStatus {
    return this.#status;
  }

  /** URL of the running collector's own metrics; undefined while none runs. */
  get metricsUrl(): string | undefined {
    return this.#status.state === "running" ? this.#process?.metricsUrl : undefined;
  }

  /** True if the running collector no longer watches events. */
  get eventsEnded(): boolean {
    return this.#process?.eventsEnded ?? false;
  }

  /** Signals that the running collector cannot add to its disk queues. */
  get rejections(): ReadonlyMap<Signal, Rejection> {
    return this.#process?.rejections.current() ?? new Map();
  }

  /** Kills the running collector; it is restarted with backoff, as after a crash. */
  killAndRestart(): void {
    this.#process?.kill();
  }

  /** Probes the running collector. */
  async healthy(): Promise<boolean> {
    return this.#status.state === "running" && ((await this.#process?.healthy()) ?? false);
  }

  /**
   * Starts the collector with `config` (YAML); if it is refused, with the configuration that last ran, if there is one. Throws
   * CollectorConfigError if there is neither, StateInUseError if another agent uses this state directory, StateDirError if the directory
   * cannot be written. Once `signal` aborts, no collector is started any more; disposing this object ends a running one.
   */
  async start(config: () => string | Promise<string>, signal?: AbortSignal): Promise<void> {
    await endOrphans(this.#files.recordFile, this.#files.path, this.#options.stopGraceMs, this.#options.log);
    const lastGood = this.#files.lastGood();
    try {
      await this.#adopt(await config());
    } catch (error) {
      if (!(error instanceof CollectorConfigError) || lastGood === undefined) throw error;
      this.#refuse(error, "starting with the configuration that last ran");
      this.#files.restore(lastGood);
      this.#config = lastGood;
    }
    if (signal?.aborted) return;
    if (this.#config !== undefined) reportEmptied(this.#config, this.#options.log);
    this.#loop = new Loop({
      signal,
      step: (signal) => this.#run(signal),
      failed: (error) => {
        this.#options.log.error({ event: "collector.supervision_failed", err: error }, "supervising the collector failed; retrying");
        this.#readiness.resolve(false);
      },
    });
  }

  /**
   * Applies a new configuration, and resolves once the collector runs with it. Does nothing if the bytes are the same. Throws
   * CollectorConfigError if the collector refuses it or does not become ready; the previous configuration then stays in use. Throws
   * StateDirError if it cannot be written; the previous one stays in use.
   */
  async apply(config: string): Promise<void> {
    const previous = this.#config;
    if (config === previous) return this.#set({ configError: null });
    try {
      await this.#adopt(config);
      if (await this.#restart()) return this.#set({ configError: null });
      throw new CollectorConfigError(
        `the collector does not become ready with the new configuration: ${this.#status.lastError ?? "no reason given"}`,
      );
    } catch (error) {
      if (!(error instanceof CollectorConfigError)) throw error;
      this.#refuse(error, "keeping the previous one");
      if (previous !== undefined && this.#config !== previous) {
        this.#files.restore(previous);
        this.#config = previous;
        await this.#restart();
      }
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const stopped = this.#loop?.[Symbol.asyncDispose]();
    await this.#process?.stop();
    await stopped;
    this.#set({ state: "stopped", pid: null });
  }

  // ---- configuration

  async #adopt(config: string): Promise<void> {
    await this.#files.adopt(config, (file) => this.#validate(file));
    this.#config = config;
  }

  async #validate(file: string): Promise<void> {
    try {
      await validateCollectorConfig(this.#options.program, file, this.#options);
    } catch (error) {
      // No collector is running that could be harmed, and a collector that refuses the configuration reports it at start.
      if (!(error instanceof ValidationUnavailableError) || this.#loop) throw error;
      this.#options.log.warn(
        { event: "collector.config_unchecked", err: error.message },
        "starting the collector with an unchecked configuration",
      );
    }
  }

  #refuse(error: CollectorConfigError, consequence: string): void {
    this.#set({ configError: error.message });
    this.#options.log.error(
      { event: "collector.config_not_used", err: error.message },
      `the new collector configuration is not used; ${consequence}`,
    );
  }

  /** Logs a failure. The file is needed only after the agent was killed, and the collector can run without it. */
  #recordIfPossible(what: string, write: () => void): void {
    try {
      write();
    } catch (error) {
      this.#options.log.warn({ event: "collector.record_failed", err: (error as Error).message }, `cannot record ${what}; continuing`);
    }
  }

  // ---- running

  /** Stops the running collector so that the loop restarts it. Returns whether the new one became ready. */
  async #restart(): Promise<boolean> {
    if (!this.#loop) return true;
    this.#failures = 0;
    this.#readiness = Promise.withResolvers<boolean>();
    const readiness = this.#readiness.promise;
    this.#loop.wake();
    await this.#process?.stop();
    return readiness;
  }

  /** One run of the collector. Returns how long to wait before the next. */
  async #run(signal: AbortSignal): Promise<number> {
    this.#set({ state: "starting", pid: null });
    const started = this.#options.onStart?.();
    const readiness = this.#readiness;
    const queues = new QueueSpace(this.#config ?? "");
    const noSpace = await queues.prepare(this.#options.log);
    if (noSpace !== undefined) return this.#waitForSpace(noSpace, readiness);
    const queueBytes = queues.updateLimitBytes();
    const env = { ...this.#options.env, ...started, ...(queueBytes !== undefined && { [QUEUE_BYTES_VARIABLE]: String(queueBytes) }) };
    const child = await CollectorProcess.start({ ...this.#options, env, configFile: this.#files.path }, signal);
    this.#process = child;
    const files = this.#files;
    // A configuration that was applied since this run began found no process to stop.
    if (signal.aborted || this.#readiness !== readiness) await child.stop();
    else this.#recordIfPossible("the collector's process id", () => files.onDisk(() => recordChild(files.recordFile, child.pid)));
    this.#set({ pid: child.pid });
    const { killReason, wasHealthy } = await this.#watch(child, readiness, queues);
    const exit = await child.exited;
    this.#process = undefined;
    this.#options.onExit?.();
    // Safe if the record remains: it names a process that has ended.
    this.#recordIfPossible("the collector's exit", () => files.onDisk(() => forgetChild(files.recordFile)));
    const isOver = (): boolean => signal.aborted || this.#readiness !== readiness;
    if (isOver() || (exit.wasStopped && killReason === undefined)) return 0;
    this.#set({ state: "waiting", pid: null });
    this.#failures = wasHealthy ? 1 : this.#failures + 1;
    const lost = exit.blamesStore && this.#config !== undefined ? await quarantineDamaged(this.#config, this.#options.log, signal) : [];
    const reason = lost.length > 0 ? lost.join("\n") : (killReason ?? exit.reason);
    this.#set({ restarts: this.#status.restarts + 1, lastError: reason });
    // Stopped, or a new configuration is waiting.
    if (isOver()) return 0;
    // The damaged file is removed, so restart at once, but only the first time: a disk that damages each new file must not cause a loop.
    return lost.length === 0 || this.#failures > 1 ? this.#backOff(reason, readiness) : 0;
  }

  /**
   * Resolves once the collector ended. Ends a collector that does not become ready in time or no longer responds; `killReason` says why.
   */
  async #watch(child: CollectorProcess, readiness: Readiness, queues: QueueSpace): Promise<Watched> {
    const deadline = AbortSignal.timeout(this.#timing.readyWithinMs);
    if (!(await child.ready(deadline))) {
      if (!deadline.aborted) return { killReason: undefined, wasHealthy: false };
      await child.stop();
      return { killReason: `not ready after ${this.#timing.readyWithinMs / 1000} s`, wasHealthy: false };
    }
    // It is being stopped for a new configuration.
    if (this.#readiness !== readiness) return { killReason: undefined, wasHealthy: false };
    const readyAt = performance.now();
    this.#set({ state: "running" });
    this.#options.log.info({ event: "collector.started", collector_pid: child.pid }, "the collector has started");
    const config = this.#config;
    if (config !== undefined) this.#recordIfPossible("the configuration that runs", () => this.#files.saveLastGood(config));
    readiness.resolve(true);
    const gone = new AbortController();
    void child.exited.finally(() => gone.abort());
    const [hung, noSpace] = await Promise.all([this.#untilHung(child, gone.signal), this.#untilResized(child, queues, gone.signal)]);
    return { killReason: hung ?? noSpace, wasHealthy: performance.now() - readyAt >= this.#timing.healthyAfterMs };
  }

  /**
   * Ends the collector if its queues must be repaired or if the disk space for them changed, which needs a restart. Returns the reason of a
   * repair; otherwise undefined.
   */
  async #untilResized(child: CollectorProcess, queues: QueueSpace, gone: AbortSignal): Promise<string | undefined> {
    const { queuesEveryMs, probeEveryMs, growAfterMs } = this.#timing;
    const startedAt = performance.now();
    for (let pass = 1; !gone.aborted; pass++) {
      await pause(queuesEveryMs, gone);
      if (gone.aborted) return undefined;
      const { skips } = child.rejections;
      const isFull = child.rejections.current().size > 0;
      const growth = isFull || pass % Math.ceil(probeEveryMs / queuesEveryMs) === 0 ? queues.growth() : 1;
      if (skips || (isFull && growth < 1)) {
        // On TERM, it would drop the lines that it cannot queue, but save their offsets as read.
        child.kill();
        return "no space left on device: the collector is restarted with smaller queues, to send skipped entries";
      }
      const mayGrow = isFull || performance.now() - startedAt >= growAfterMs;
      if ((growth >= RESIZE_FACTOR && mayGrow) || growth <= 1 / RESIZE_FACTOR) {
        this.#options.log.info(
          { event: "collector.queues_resized", growth },
          "restarting the collector: the disk space for its queues changed",
        );
        await child.stop();
      }
    }
    return undefined;
  }

  /** Kills a hung collector, which would not react to TERM, and returns the reason; undefined if the collector ended by itself. */
  async #untilHung(child: CollectorProcess, gone: AbortSignal): Promise<string | undefined> {
    const { probeEveryMs, hungAfter } = this.#timing;
    for (let failedProbes = 0; failedProbes < hungAfter;) {
      await pause(probeEveryMs, gone);
      if (gone.aborted) return undefined;
      failedProbes = (await child.responds(probeEveryMs)) ? 0 : failedProbes + 1;
    }
    if (gone.aborted) return undefined;
    child.kill();
    return `hung: killed after ${hungAfter} probes without a response (${(probeEveryMs * hungAfter) / 1000} s or longer)`;
  }

  /** Called while the disk is full, because a collector that cannot write to its queues could lose entries. Returns how long to wait. */
  #waitForSpace(reason: string, readiness: Readiness): number {
    if (this.#status.lastError !== reason)
      this.#options.log.error({ event: "collector.waits_for_space", reason }, "the disk is full: the collector starts once there is space");
    this.#set({ state: "waiting", pid: null, lastError: reason });
    this.#failures++;
    const { firstBackoffMs, maxBackoffMs } = this.#timing;
    readiness.resolve(false);
    return backoffOf(this.#failures, [firstBackoffMs, Math.min(maxBackoffMs, MAX_SPACE_WAIT_MS)], this.#options.random);
  }

  /** Returns how long to wait. */
  #backOff(reason: string, readiness: Readiness): number {
    const { firstBackoffMs, maxBackoffMs } = this.#timing;
    const waitMs = backoffOf(this.#failures, [firstBackoffMs, maxBackoffMs], this.#options.random);
    this.#options.log.error(
      { event: "collector.exited", reason, restart_in_ms: waitMs, failures: this.#failures },
      "collector exited, restarting it",
    );
    readiness.resolve(false);
    return waitMs;
  }

  #set(change: Partial<CollectorStatus>): void {
    const since = change.state !== undefined && change.state !== this.#status.state ? now() : this.#status.since;
    this.#status = { ...this.#status, ...change, since };
  }
}

function now(): string {
  return new Date().toISOString();
}
