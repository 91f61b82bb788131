// How long the telemetry of each organisation is kept: set by an operator, or the settings. Invariant: `of` needs no statement and no
// wait. One statement reads all rows every few seconds while they are used, so a change is in force everywhere within 5 s; while the database
// is unreachable, the last known values apply.
import type { ColumnType, Kysely } from "kysely";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import type { LogRule } from "../../storage/removal/removal.ts";

export interface OrgRetentionRow {
  org_id: string;
  /** null: the settings. */
  logs_days: number | null;
  traces_days: number | null;
  metrics_days: number | null;
  log_rules: ColumnType<LogRule[], string, string>;
}

export interface RetentionTables {
  org_retention: OrgRetentionRow;
}

export interface Retention {
  readonly logsDays: number;
  readonly tracesDays: number;
  /** A fraction if the setting is shorter than a day. */
  readonly metricsDays: number;
  readonly logRules: readonly LogRule[];
}

/** Undefined: the settings. */
export interface RetentionOverrides {
  readonly logsDays: number | undefined;
  readonly tracesDays: number | undefined;
  readonly metricsDays: number | undefined;
  readonly logRules: readonly LogRule[];
}

const REFRESH_MS = 3_000;

export class OrgRetention {
  readonly defaults: Retention;
  #database: Kysely<RetentionTables> | undefined;
  #known: ReadonlyMap<string, Retention> = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(defaults: Omit<Retention, "logRules">) {
    this.defaults = { ...defaults, logRules: [] };
  }

  /** The stores are opened at the same time. */
  useDatabase(database: Kysely<RetentionTables>): void {
    this.#database = database;
  }

  of(orgId: string): Retention {
    if (performance.now() - this.#readAtMs >= REFRESH_MS) {
      this.#readAtMs = performance.now();
      // Safe to ignore: the last known values apply, and other users of the database report that it is unreachable.
      void this.readAll().catch(() => undefined);
    }
    return this.#known.get(orgId) ?? this.defaults;
  }

  /** The organisations whose retention is not that of the settings. */
  async readAll(): Promise<ReadonlyMap<string, Retention>> {
    const rows = await this.#db.selectFrom("org_retention").selectAll().execute();
    this.#known = new Map(rows.map((row) => [row.org_id, this.#merge(row)]));
    return this.#known;
  }

  /** The current values, from the database. */
  async read(orgId: string): Promise<Retention> {
    const own = tenantDatabase(this.#db, orgId).selectFrom("org_retention").selectAll().where("org_id", "=", orgId);
    const row = await own.executeTakeFirst();
    return row ? this.#merge(row) : this.defaults;
  }

  /** In force here at once. */
  async set(orgId: string, { logsDays, tracesDays, metricsDays, logRules }: RetentionOverrides): Promise<Retention> {
    const columns = {
      logs_days: logsDays ?? null,
      traces_days: tracesDays ?? null,
      metrics_days: metricsDays ?? null,
      log_rules: JSON.stringify(logRules),
    };
    await tenantDatabase(this.#db, orgId)
      .insertInto("org_retention")
      .values({ org_id: orgId, ...columns })
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet(columns))
      .execute();
    await this.readAll();
    return this.of(orgId);
  }

  get #db(): Kysely<RetentionTables> {
    if (!this.#database) throw new Error("the account database is not open yet");
    return this.#database;
  }

  #merge({
    logs_days,
    traces_days,
    metrics_days,
    log_rules,
  }: Pick<OrgRetentionRow, "logs_days" | "traces_days" | "metrics_days"> & { log_rules: LogRule[] }): Retention {
    const { logsDays, tracesDays, metricsDays } = this.defaults;
    return {
      logsDays: logs_days ?? logsDays,
      tracesDays: traces_days ?? tracesDays,
      metricsDays: Math.min(metrics_days ?? metricsDays, metricsDays),
      logRules: log_rules,
    };
  }
}
