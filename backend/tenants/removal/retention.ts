// How long the telemetry of each organisation is kept: as an operator set it, or by default as in the settings (override-cache.ts).
import type { ColumnType, Kysely } from "kysely";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import type { LogRule } from "../../storage/removal/removal.ts";
import { OverrideCache } from "../override-cache.ts";

export interface OrgRetentionRow {
  org_id: string;
  /** null: as in the settings. */
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

interface RetentionColumns extends Pick<OrgRetentionRow, "logs_days" | "traces_days" | "metrics_days"> {
  readonly log_rules: readonly LogRule[];
}

export class OrgRetention {
  readonly defaults: Retention;
  readonly #cache: OverrideCache<Retention>;
  #database: Kysely<RetentionTables> | undefined;

  constructor(defaults: Omit<Retention, "logRules">) {
    this.defaults = { ...defaults, logRules: [] };
    this.#cache = new OverrideCache({ defaults: this.defaults, readAll: () => this.readAll() });
  }

  /** Call before any other method: the stores are opened at the same time, so the constructor cannot have the database. */
  useDatabase(database: Kysely<RetentionTables>): void {
    this.#database = database;
  }

  of(orgId: string): Retention {
    return this.#cache.of(orgId);
  }

  /** Reads the retention of all organisations. Never throws. */
  async refresh(): Promise<void> {
    await this.#cache.refresh();
  }

  /** The organisations for which an operator has set the retention, from the database. */
  async readAll(): Promise<ReadonlyMap<string, Retention>> {
    const rows = await this.#db.selectFrom("org_retention").selectAll().execute();
    return new Map(rows.map((row) => [row.org_id, this.#merge(row)]));
  }

  /** The current values, from the database. */
  async read(orgId: string): Promise<Retention> {
    const rows = tenantDatabase(this.#db, orgId).selectFrom("org_retention").selectAll().where("org_id", "=", orgId);
    const row = await rows.executeTakeFirst();
    return row ? this.#merge(row) : this.defaults;
  }

  /** Stores the retention, which takes effect in this replica immediately. */
  async set(orgId: string, { log_rules, ...days }: RetentionColumns): Promise<Retention> {
    const columns = { ...days, log_rules: JSON.stringify(log_rules) };
    await tenantDatabase(this.#db, orgId)
      .insertInto("org_retention")
      .values({ org_id: orgId, ...columns })
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet(columns))
      .execute();
    const retention = this.#merge({ ...days, log_rules });
    this.#cache.put(orgId, retention);
    return retention;
  }

  get #db(): Kysely<RetentionTables> {
    if (!this.#database) throw new Error("the account database is not open yet");
    return this.#database;
  }

  #merge({ logs_days, traces_days, metrics_days, log_rules }: RetentionColumns): Retention {
    const { logsDays, tracesDays, metricsDays } = this.defaults;
    return {
      logsDays: logs_days ?? logsDays,
      tracesDays: traces_days ?? tracesDays,
      metricsDays: Math.min(metrics_days ?? metricsDays, metricsDays),
      logRules: log_rules,
    };
  }
}
