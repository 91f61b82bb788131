// Determines which organisations have an enabled channel. Invariant: the result is at most KEPT_MS old, so that an installation without
// channels costs only one small statement every few seconds.
import type { NotificationDb } from "./notification-tables.ts";

const KEPT_MS = 2000;

export class ChannelsInUse {
  readonly #db: NotificationDb;
  readonly #nowMs: () => number;
  #orgs: ReadonlySet<string> = new Set();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<ReadonlySet<string>> | undefined;

  constructor(db: NotificationDb, nowMs: () => number) {
    this.#db = db;
    this.#nowMs = nowMs;
  }

  /** Throws if the database is unavailable. */
  async orgs(): Promise<ReadonlySet<string>> {
    if (Math.abs(this.#nowMs() - this.#readAtMs) < KEPT_MS) return this.#orgs;
    this.#reading ??= this.#begin();
    return await this.#reading;
  }

  /** True if no channel was in use at the last read. */
  get isEmpty(): boolean {
    return this.#orgs.size === 0;
  }

  /** Call after a change by this replica: the next call reads again. */
  forget(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
    // A statement that is still running may have started before the change.
    this.#reading = undefined;
  }

  #begin(): Promise<ReadonlySet<string>> {
    const reading = this.#read().then(
      (orgs) => {
        if (this.#reading === reading) [this.#orgs, this.#readAtMs, this.#reading] = [orgs, this.#nowMs(), undefined];
        return orgs;
      },
      (error: unknown) => {
        if (this.#reading === reading) this.#reading = undefined;
        throw error;
      },
    );
    return reading;
  }

  async #read(): Promise<ReadonlySet<string>> {
    const rows = await this.#db.selectFrom("channels").select("org_id").distinct().where("enabled", "=", true).execute();
    return new Set(rows.map((row) => row.org_id));
  }
}
