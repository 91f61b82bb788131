// What the collector shall run now: the settings, what remote configuration adjusts, the operator's own file, and the links that lead
// outside of the allowed paths. Invariants: changes are made one after the other; the collector is touched only when the bytes differ;
// bytes that it refused are not tried again until they change. Made by run.ts, adjusted by enrolment/remote-config.ts.
import { setTimeout as sleep } from "node:timers/promises";
import type { Adjustment } from "../enrolment/remote-config.ts";
import type { Log } from "../log.ts";
import type { Settings } from "../settings.ts";
import { strayLinks } from "./log-paths.ts";
import { logPathRules, nodeCollectorConfig } from "./node-config.ts";
import { CollectorConfigError } from "./render.ts";
import type { Supervisor } from "./supervisor.ts";

/** How soon a new stray link is left out, and a changed COLLECTOR_CONFIG_FILE is taken. */
const LOOK_EVERY_MS = 10_000;

export class CollectorConfiguration implements AsyncDisposable {
  readonly #settings: Settings;
  readonly #supervisor: Supervisor;
  readonly #log: Log;
  readonly #stop = new AbortController();
  #adjustment: Adjustment;
  #refused: string | undefined;
  #failed: string | undefined;
  #strays = "";
  #running: Promise<void> | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(settings: Settings, supervisor: Supervisor, adjustment: Adjustment, log: Log) {
    this.#settings = settings;
    this.#supervisor = supervisor;
    this.#adjustment = adjustment;
    this.#log = log;
  }

  /** Starts the collector; throws as Supervisor.start does. */
  async start(): Promise<void> {
    await this.#supervisor.start(() => this.#render(this.#adjustment));
    this.#running = this.#watch();
  }

  /** Throws CollectorConfigError when the collector refuses; what was before is then in force again. */
  async adjust(adjustment: Adjustment): Promise<void> {
    await this.#inTurn(async () => {
      await this.#supervisor.apply(this.#render(adjustment));
      this.#adjustment = adjustment;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#turn;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) await this.#inTurn(() => this.#look());
    }
  }

  async #look(): Promise<void> {
    let rendered: string | undefined;
    try {
      rendered = this.#render(this.#adjustment);
      if (rendered === this.#refused) return;
      await this.#supervisor.apply(rendered);
      this.#refused = undefined;
      this.#failed = undefined;
    } catch (error) {
      if (!(error instanceof CollectorConfigError)) return this.#willRetry(error as Error);
      // Told by the supervisor where the collector refused it; the configuration in force stays.
      if (rendered === undefined && this.#refused !== error.message)
        this.#log.error({ err: error.message }, "the collector configuration cannot be used; the one in force stays");
      this.#refused = rendered ?? error.message;
    }
  }

  /** Safe: the configuration in force stays, and the next look tries again. Told once. */
  #willRetry({ message }: Error): void {
    if (message !== this.#failed)
      this.#log.error({ err: message }, "cannot put a new collector configuration in force; the one before stays; trying again");
    this.#failed = message;
  }

  #render(adjustment: Adjustment): string {
    const { host } = this.#settings;
    if (!host) return nodeCollectorConfig(this.#settings, adjustment, []);
    const strays = strayLinks(adjustment.logPaths ?? host.logPaths, logPathRules(this.#settings, host));
    if (strays.length > 0 && strays.join() !== this.#strays)
      this.#log.warn({ strays }, "links that lead outside of LOG_PATHS_ALLOWED are not read");
    this.#strays = strays.join();
    return nodeCollectorConfig(this.#settings, adjustment, strays);
  }

  #inTurn(change: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(change);
    this.#turn = mine.catch(() => undefined);
    return mine;
  }
}
