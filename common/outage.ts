// Reports an outage instead of each failure: when it begins, occasionally while it lasts, and when it has ended. Invariants: each failure
// is counted; how often an outage is reported depends on its duration, not on the number of attempts.

export interface OutageFacts {
  /** Unix milliseconds of the first failure. */
  readonly sinceMs: number;
  /** How long it has lasted, whole seconds. */
  readonly seconds: number;
  /** Including the first. */
  readonly failures: number;
}

export interface OutageOptions<Cause> {
  /** Called at the first failure, and again if the reason changes. */
  readonly began: (cause: Cause, facts: OutageFacts) => void;
  /** Called at a failure that occurs `remindEveryMs` or more after the last report. */
  readonly reminded?: (cause: Cause, facts: OutageFacts) => void;
  /** `cause`: the cause of the last failure. */
  readonly ended: (facts: OutageFacts, cause: Cause) => void;
  /** Default: never. */
  readonly remindEveryMs?: number;
  readonly nowMs?: () => number;
  /** A monotonic clock that measures how long the outage lasts. Default: `nowMs` if that is given. */
  readonly steadyMs?: () => number;
}

interface Lasting<Cause> {
  readonly sinceMs: number;
  readonly beganMs: number;
  failures: number;
  cause: Cause;
  reason: string;
  saidAtMs: number;
}

export class Outage<Cause = unknown> {
  readonly #options: OutageOptions<Cause>;
  readonly #nowMs: () => number;
  readonly #steadyMs: () => number;
  #lasting: Lasting<Cause> | undefined;

  constructor(options: OutageOptions<Cause>) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#steadyMs = options.steadyMs ?? options.nowMs ?? (() => performance.now());
  }

  /** Unix milliseconds of the first failure; undefined while there is no outage. */
  get sinceMs(): number | undefined {
    return this.#lasting?.sinceMs;
  }

  /** Duration of the current outage; undefined if there is none. */
  get lastsMs(): number | undefined {
    return this.#lasting && this.#steadyMs() - this.#lasting.beganMs;
  }

  /** Cause of the last failure; undefined while there is no outage. */
  get cause(): Cause | undefined {
    return this.#lasting?.cause;
  }

  /** A failure with another `reason` is reported again. */
  failed(cause: Cause, reason = ""): void {
    const { began, reminded, remindEveryMs = Infinity } = this.#options;
    const nowMs = this.#steadyMs();
    const before = this.#lasting;
    const lasting = before ?? { sinceMs: this.#nowMs(), beganMs: nowMs, failures: 0, cause, reason, saidAtMs: nowMs };
    const isNews = !before || before.reason !== reason;
    const isReminder = nowMs - lasting.saidAtMs >= remindEveryMs;
    lasting.failures += 1;
    lasting.cause = cause;
    lasting.reason = reason;
    this.#lasting = lasting;
    if (!isNews && !isReminder) return;
    lasting.saidAtMs = nowMs;
    (isNews ? began : reminded)?.(cause, this.#facts(lasting));
  }

  /** Does nothing if there is no outage. */
  recovered(): void {
    const lasting = this.#lasting;
    this.#lasting = undefined;
    if (lasting) this.#options.ended(this.#facts(lasting), lasting.cause);
  }

  #facts({ sinceMs, beganMs, failures }: Lasting<Cause>): OutageFacts {
    return { sinceMs, seconds: Math.round((this.#steadyMs() - beganMs) / 1000), failures };
  }
}
