// Which organisations have an enabled channel. Invariant: the answer is at most KEPT_MS old, so an installation without channels costs one
// small statement every few seconds.
import type { NotificationDb } from "./table.ts";

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

  /** Throws when the database is away. */
  async orgs(): Promise<ReadonlySet<string>> {
    if (Math.abs(this.#nowMs() - this.#readAtMs) < KEPT_MS) return this.#orgs;
    this.#reading ??= this.#begin();
    return await this.#reading;
  }

  /** As far as is known. */
  get isEmpty(): boolean {
    return this.#orgs.size === 0;
  }

  /** The next question is asked anew: something was changed here. */
  forget(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
    // One that is under way may have begun before the change.
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
