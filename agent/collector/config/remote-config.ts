// Polls the remote configuration of a host or of a cluster's node, validates it independently of the server, applies it, stores it and
// reports the result. Invariants: only intervals, log paths, signals and log level can change; if a configuration is refused, the previous
// one stays in use and the heartbeat reports the reason; the current configuration survives a restart while the backend is unavailable.
import { readFileSync } from "node:fs";
import { type LogPathRules, whyRefused } from "../files/log-paths.ts";
import { MAX_REMOTE_PATHS } from "../../limits.ts";
import { CollectorConfigError } from "./render.ts";
import { writeDurably } from "../../../common/files.ts";
import { Loop, spread } from "../../../common/loop.ts";
import type { Credential, CredentialSource } from "../../credentials/store.ts";
import type { Log } from "../../log.ts";
import type { HostConfig } from "../../../common/protocol/enrolment.ts";
import { durationWanted, durationWithin } from "../../../common/duration.ts";
import { LOG_LEVELS, type LogLevel, type Signal, SIGNALS } from "../../settings.ts";
import type { BackendApi } from "../../upstream/backend-api.ts";

/** Values that the server overrides; an absent one keeps its setting. */
export interface Adjustment {
  readonly metricsIntervalMs?: number | undefined;
  readonly heartbeatIntervalMs?: number | undefined;
  readonly logPaths?: readonly string[] | undefined;
  readonly signals?: readonly Signal[] | undefined;
  readonly logLevel?: LogLevel | undefined;
}

export interface RemoteConfigRules extends LogPathRules {
  /** Signals that SIGNALS enables on this host: the server can disable them, but not enable others. */
  readonly signals: readonly Signal[];
}

export interface RemoteConfigOptions {
  readonly stateFile: string;
  readonly rules: RemoteConfigRules;
  readonly backend: Pick<BackendApi, "remoteConfig">;
  readonly credentials: CredentialSource;
  /** Node name; undefined on a host. */
  readonly node?: string | undefined;
  readonly intervalMs: number;
  /** Applies the adjustment; if the collector refuses it, restores the previous one and throws CollectorConfigError. */
  readonly apply: (adjustment: Adjustment) => Promise<void>;
  readonly log: Log;
}

export interface RemoteConfigStatus {
  /** Version of the current configuration; undefined if the server never sent one. */
  readonly version: string | undefined;
  /** Why the newest version is not in use. */
  readonly error: string | undefined;
}

/** The host does not accept a remote configuration; the message is reported to the backend. */
export class RemoteConfigError extends Error {
  override readonly name = "RemoteConfigError";
}

interface Remembered {
  readonly etag?: string | undefined;
  readonly version: string;
  readonly config: HostConfig;
}

const INTERVAL = { minMs: 1000, maxMs: 86_400_000 };

export class RemoteConfigLoop implements AsyncDisposable {
  readonly #options: RemoteConfigOptions;
  readonly adjustmentAtStart: Adjustment;
  #loop: Loop | undefined;
  #etag: string | undefined;
  #status: RemoteConfigStatus = { version: undefined, error: undefined };

  constructor(options: RemoteConfigOptions) {
    this.#options = options;
    this.adjustmentAtStart = this.#recall();
  }

  status(): RemoteConfigStatus {
    return this.#status;
  }

  /** Call once `adjustmentAtStart` is in use. */
  start(): void {
    const { intervalMs, credentials, log } = this.#options;
    // Safe: the current configuration stays in use, and heartbeats report an outage or a refused key.
    const failed = (error: unknown): void =>
      log.debug({ event: "remote_config.unavailable", err: (error as Error).message }, "cannot fetch the remote configuration");
    const step = async (signal: AbortSignal): Promise<number> => {
      const credential = credentials.current();
      if (!credential) return Math.min(intervalMs, 1000);
      await this.#ask(credential, signal).catch((error: unknown) => signal.aborted || failed(error));
      return spread(intervalMs);
    };
    this.#loop = new Loop({ step, failed });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.[Symbol.asyncDispose]();
  }

  async #ask(credential: Credential, signal: AbortSignal): Promise<void> {
    const { backend, node } = this.#options;
    const { body } = await backend.remoteConfig(credential, node, this.#etag, signal);
    if (body) await this.#take(body.document, body.etag);
  }

  async #take(document: unknown, etag: string | undefined): Promise<void> {
    const { rules, apply, log } = this.#options;
    const { version: given, config } = (document ?? {}) as { version?: unknown; config?: unknown };
    const version = typeof given === "string" ? given : "";
    try {
      await apply(parseHostConfig(config, rules));
      if (version !== this.#status.version) log.info({ event: "remote_config.applied", version }, "remote configuration applied");
      this.#status = { version, error: undefined };
      this.#remember({ etag, version, config: config as HostConfig });
    } catch (error) {
      if (!(error instanceof RemoteConfigError || error instanceof CollectorConfigError)) return this.#willRetry(version, error as Error);
      this.#status = { ...this.#status, error: `version ${version}: ${error.message}`.slice(0, 1000) };
      log.error(
        { event: "remote_config.rejected", version, in_force: this.#status.version, err: error.message },
        "remote configuration is invalid; keeping the previous one",
      );
    }
    // A refused version is not requested again until it changes, either.
    this.#etag = etag;
  }

  /**
   * Safe: the etag was not stored, so the next poll gets the same version again. The failure, such as a full disk, is not the
   * configuration's fault.
   */
  #willRetry(version: string, { message }: Error): void {
    this.#options.log.warn(
      { event: "remote_config.apply_failed", version, err: message },
      "cannot apply or store the remote configuration, retrying",
    );
    if (version !== this.#status.version) this.#status = { ...this.#status, error: `version ${version}: ${message}`.slice(0, 1000) };
  }

  #recall(): Adjustment {
    try {
      const { etag, version, config } = JSON.parse(readFileSync(this.#options.stateFile, "utf8")) as Remembered;
      const adjustment = parseHostConfig(config, this.#options.rules);
      this.#etag = etag;
      this.#status = { version, error: undefined };
      return adjustment;
    } catch {
      // Safe: no configuration is stored, or the settings no longer allow it; the server is asked again.
      return {};
    }
  }

  #remember(remembered: Remembered): void {
    writeDurably(this.#options.stateFile, JSON.stringify(remembered));
  }
}

/** Throws RemoteConfigError, which names the field. */
export function parseHostConfig(config: unknown, rules: RemoteConfigRules): Adjustment {
  const { intervals, log_paths: logPaths, signals, log_level: logLevel, ...unknown } = fieldsOf(config, "config");
  refuseUnknown(unknown, "config");
  const { metrics, heartbeat, ...unknownIntervals } = intervals === undefined ? {} : fieldsOf(intervals, "intervals");
  refuseUnknown(unknownIntervals, "intervals");
  return {
    metricsIntervalMs: intervalOf(metrics, "intervals.metrics"),
    heartbeatIntervalMs: intervalOf(heartbeat, "intervals.heartbeat"),
    logPaths: logPaths === undefined ? undefined : pathsOf(logPaths, rules),
    signals: signals === undefined ? undefined : signalsOf(signals, rules),
    logLevel: logLevel === undefined ? undefined : levelOf(logLevel),
  };
}

function fieldsOf(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new RemoteConfigError(`${name} must be an object`);
  return value as Record<string, unknown>;
}

function refuseUnknown(unknown: Record<string, unknown>, name: string): void {
  const [first] = Object.keys(unknown);
  if (first !== undefined) throw new RemoteConfigError(`${name}.${first} is not a field that can be set remotely`);
}

function intervalOf(value: unknown, name: string): number | undefined {
  if (value === undefined) return undefined;
  const ms = typeof value === "string" ? durationWithin(value, INTERVAL) : undefined;
  if (ms === undefined) throw new RemoteConfigError(`${name} must be ${durationWanted(INTERVAL, "30s or 5m")}`);
  return ms;
}

function pathsOf(value: unknown, rules: RemoteConfigRules): string[] {
  if (!Array.isArray(value) || value.length > MAX_REMOTE_PATHS || value.some((path) => typeof path !== "string")) {
    throw new RemoteConfigError(`log_paths must be a list of at most ${MAX_REMOTE_PATHS} paths`);
  }
  for (const path of value as string[]) {
    const why = whyRefused(path, rules);
    if (why !== undefined) throw new RemoteConfigError(`log_paths: ${why}`);
  }
  return value as string[];
}

function signalsOf(value: unknown, rules: RemoteConfigRules): Signal[] {
  const given = Array.isArray(value) ? (value as Signal[]) : [];
  if (given.length === 0 || given.some((signal) => !SIGNALS.includes(signal))) {
    throw new RemoteConfigError(`signals must be a list of ${SIGNALS.join(", ")}`);
  }
  const off = given.find((signal) => !rules.signals.includes(signal));
  if (off !== undefined) throw new RemoteConfigError(`signals: ${off} is turned off here (SIGNALS)`);
  return SIGNALS.filter((signal) => given.includes(signal));
}

function levelOf(value: unknown): LogLevel {
  const level = LOG_LEVELS.find((known) => known === value);
  if (level === undefined) throw new RemoteConfigError(`log_level must be one of ${LOG_LEVELS.join(", ")}`);
  return level;
}
