// Polls the remote configuration of a host or of a cluster's node, validates it independently of the server, applies and stores it.
// Invariants: only intervals, log paths, signals and log level can change; if a configuration is invalid, the previous one stays in use and the
// heartbeat reports the reason; the current configuration survives a restart while the backend is unavailable.
import { readFileSync } from "node:fs";
import { type LogPathRules, whyRefused } from "../files/log-paths.ts";
import { MAX_REMOTE_PATHS } from "../../agent-limits.ts";
import { CollectorConfigError } from "./render.ts";
import { writeDurably } from "../../../common/files.ts";
import { Loop, spread } from "../../../common/loop.ts";
import type { Credential, CredentialSource } from "../../credentials/credential-store.ts";
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

interface RemoteConfigOptions {
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

interface RemoteConfigStatus {
  /** Version of the current configuration; undefined if the server never sent one. */
  readonly version: string | undefined;
  /** Why the newest version is not in use. */
  readonly error: string | undefined;
}

/** A remote configuration is invalid; the message is reported to the backend. */
export class RemoteConfigError extends Error {
  override readonly name = "RemoteConfigError";
}

interface StoredConfig {
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
    this.adjustmentAtStart = this.#load();
  }

  status(): RemoteConfigStatus {
    return this.#status;
  }

  /** Call once `adjustmentAtStart` is in use. */
  start(): void {
    const { intervalMs, credentials, log } = this.#options;
    // The current configuration stays in use, and heartbeats report an outage or a refused key.
    const failed = (error: unknown): void =>
      log.debug({ event: "remote_config.unavailable", err: (error as Error).message }, "cannot fetch the remote configuration");
    const step = async (signal: AbortSignal): Promise<number> => {
      const credential = credentials.current();
      if (!credential) return Math.min(intervalMs, 1000);
      await this.#fetch(credential, signal).catch((error: unknown) => signal.aborted || failed(error));
      return spread(intervalMs);
    };
    this.#loop = new Loop({ step, failed });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.[Symbol.asyncDispose]();
  }

  async #fetch(credential: Credential, signal: AbortSignal): Promise<void> {
    const { backend, node } = this.#options;
    const { body } = await backend.remoteConfig(credential, node, this.#etag, signal);
    if (body) await this.#applyDocument(body.document, body.etag);
  }

  async #applyDocument(document: unknown, etag: string | undefined): Promise<void> {
    const { rules, apply, log } = this.#options;
    const { version: rawVersion, config } = (document ?? {}) as { version?: unknown; config?: unknown };
    const version = typeof rawVersion === "string" ? rawVersion : "";
    try {
      await apply(parseHostConfig(config, rules));
      if (version !== this.#status.version) log.info({ event: "remote_config.applied", version }, "remote configuration applied");
      this.#status = { version, error: undefined };
      const stored: StoredConfig = { etag, version, config: config as HostConfig };
      writeDurably(this.#options.stateFile, JSON.stringify(stored));
    } catch (error) {
      if (!(error instanceof RemoteConfigError || error instanceof CollectorConfigError))
        return this.#reportFailure(version, error as Error);
      this.#status = { ...this.#status, error: `version ${version}: ${error.message}`.slice(0, 1000) };
      log.error(
        { event: "remote_config.rejected", version, in_force: this.#status.version, err: error.message },
        "remote configuration is invalid; keeping the previous one",
      );
    }
    // With this ETag, an invalid version is not sent again either.
    this.#etag = etag;
  }

  /**
   * Handles failures that the configuration did not cause, such as a full disk. The ETag was not stored, so the next poll gets the
   * same version again.
   */
  #reportFailure(version: string, { message }: Error): void {
    this.#options.log.warn(
      { event: "remote_config.apply_failed", version, err: message },
      "cannot apply or store the remote configuration, retrying",
    );
    if (version !== this.#status.version) this.#status = { ...this.#status, error: `version ${version}: ${message}`.slice(0, 1000) };
  }

  #load(): Adjustment {
    try {
      const { etag, version, config } = JSON.parse(readFileSync(this.#options.stateFile, "utf8")) as StoredConfig;
      const adjustment = parseHostConfig(config, this.#options.rules);
      this.#etag = etag;
      this.#status = { version, error: undefined };
      return adjustment;
    } catch {
      // No configuration is stored, or the settings no longer allow it; the agent fetches it again.
      return {};
    }
  }
}

/** Throws RemoteConfigError, which names the field. */
export function parseHostConfig(config: unknown, rules: RemoteConfigRules): Adjustment {
  const { intervals, log_paths: logPaths, signals, log_level: logLevel, ...unknown } = asObject(config, "config");
  refuseUnknown(unknown, "config");
  const { metrics, heartbeat, ...unknownIntervals } = intervals === undefined ? {} : asObject(intervals, "intervals");
  refuseUnknown(unknownIntervals, "intervals");
  return {
    metricsIntervalMs: parseInterval(metrics, "intervals.metrics"),
    heartbeatIntervalMs: parseInterval(heartbeat, "intervals.heartbeat"),
    logPaths: logPaths === undefined ? undefined : parsePaths(logPaths, rules),
    signals: signals === undefined ? undefined : parseSignals(signals, rules),
    logLevel: logLevel === undefined ? undefined : parseLevel(logLevel),
  };
}

function asObject(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new RemoteConfigError(`${name} must be an object`);
  return value as Record<string, unknown>;
}

function refuseUnknown(unknown: Record<string, unknown>, name: string): void {
  const [first] = Object.keys(unknown);
  if (first !== undefined) throw new RemoteConfigError(`${name}.${first} cannot be set remotely`);
}

function parseInterval(value: unknown, name: string): number | undefined {
  if (value === undefined) return undefined;
  const ms = typeof value === "string" ? durationWithin(value, INTERVAL) : undefined;
  if (ms === undefined) throw new RemoteConfigError(`${name} must be ${durationWanted(INTERVAL, "30s or 5m")}`);
  return ms;
}

function parsePaths(value: unknown, rules: RemoteConfigRules): string[] {
  if (!Array.isArray(value) || value.length > MAX_REMOTE_PATHS || value.some((path) => typeof path !== "string")) {
    throw new RemoteConfigError(`log_paths must be a list of at most ${MAX_REMOTE_PATHS} paths`);
  }
  for (const path of value as string[]) {
    const why = whyRefused(path, rules);
    if (why !== undefined) throw new RemoteConfigError(`log_paths: ${why}`);
  }
  return value as string[];
}

function parseSignals(value: unknown, rules: RemoteConfigRules): Signal[] {
  const signals = Array.isArray(value) ? (value as Signal[]) : [];
  if (signals.length === 0 || signals.some((signal) => !SIGNALS.includes(signal))) {
    throw new RemoteConfigError(`signals must be a list of ${SIGNALS.join(", ")}`);
  }
  const disabled = signals.find((signal) => !rules.signals.includes(signal));
  if (disabled !== undefined) throw new RemoteConfigError(`signals: ${disabled} is disabled on this host (SIGNALS)`);
  return SIGNALS.filter((signal) => signals.includes(signal));
}

function parseLevel(value: unknown): LogLevel {
  const level = LOG_LEVELS.find((known) => known === value);
  if (level === undefined) throw new RemoteConfigError(`log_level must be one of ${LOG_LEVELS.join(", ")}`);
  return level;
}
