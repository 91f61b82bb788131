// How long the telemetry of each organisation is kept: as an operator set it, or by default as in the settings (override-cache.ts).
// Invariant: ingest admits no record that a table would delete before its time, whatever the retention says (storage/removal).
import { setTimeout as sleep } from "node:timers/promises";
import type { ColumnType, Kysely } from "kysely";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import type { Log } from "../../log.ts";
import { ApiError } from "../../errors.ts";
import type { LogRule } from "../../storage/removal/removal.ts";
import type { SignalDays, TableLimits } from "../../storage/removal/table-limits.ts";
import { OverrideCache } from "../override-cache.ts";
import { type ClaimTables, claimJob, releaseJob } from "./job-claim.ts";

export interface OrgRetentionRow {
  org_id: string;
  /** null: as in the settings. */
  logs_days: number | null;
  traces_days: number | null;
  metrics_days: number | null;
  log_rules: ColumnType<LogRule[], string, string>;
}

export interface RetentionTables extends ClaimTables {
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

/** A lower limit of a table, which another replica has set, is noticed within this time. */
const READ_TABLES_EVERY_MS = 60_000;
/** The job of changing the limits of tables. A replica that ends during a change keeps it for this time. */
const TABLES_JOB = "table-limits";
const TABLES_JOB_MS = 60_000;
const CLAIM_TRIES = 50;
const CLAIM_EVERY_MS = 100;

export class OrgRetention {
  readonly defaults: Retention;
  readonly #cache: OverrideCache<Retention>;
  #database: Kysely<RetentionTables> | undefined;
  #tables: TableLimits | undefined;
  /** Until the tables are opened, there are none, and new ones keep everything. */
  #kept: SignalDays = { logs: Number.POSITIVE_INFINITY, traces: Number.POSITIVE_INFINITY };
  #keptAtMs = 0;

  constructor(defaults: Omit<Retention, "logRules">) {
    this.defaults = { ...defaults, logRules: [] };
    this.#cache = new OverrideCache({ defaults: this.defaults, readAll: () => this.#refreshAll() });
  }

  /** Call before any other method: the stores are opened at the same time, so the constructor cannot have the database. */
  useDatabase(database: Kysely<RetentionTables>): void {
    this.#database = database;
  }

  /** Call before the tables are used. Throws ApiError storage_unavailable if they cannot be read. */
  async useTables(tables: TableLimits, log: Log): Promise<void> {
    this.#tables = tables;
    await tables.raise({ logs: this.defaults.logsDays, traces: this.defaults.tracesDays }).catch((err: unknown) => {
      log.error(
        { event: "clickhouse.retention_not_set", err },
        "cannot raise the retention of tables: older records are dropped until it is",
      );
    });
    await this.#readKept();
  }

  of(orgId: string): Retention {
    return this.#cache.of(orgId);
  }

  /** How far back records are admitted: as the retention says, and as the tables are known to keep them. */
  admitted(orgId: string): SignalDays {
    const { logsDays, tracesDays } = this.of(orgId);
    return { logs: Math.min(logsDays, this.#kept.logs), traces: Math.min(tracesDays, this.#kept.traces) };
  }

  /** Raises and lowers the tables to the longest retention. Throws ApiError storage_unavailable. */
  async settleTables(): Promise<void> {
    const tables = this.#tables;
    if (tables) await this.#claimTables(tables, async () => await tables.settle(this.#longest(await this.readAll())));
    await this.#readKept();
  }

  /** Runs a deletion of expired rows, during which no retention changes in this process. */
  async withoutChanges(deleteExpired: (organisations: ReadonlyMap<string, Retention>) => Promise<void>): Promise<void> {
    const step = async (): Promise<void> => await deleteExpired(await this.readAll());
    await (this.#tables ? this.#tables.exclusively(step) : step());
  }

  /** Reads the retention of all organisations. Never throws. */
  async refresh(): Promise<void> {
    await this.#cache.refresh();
  }

  /** Call once in a process that uses `of` or `admitted`. */
  refreshPeriodically(): AsyncDisposable {
    return this.#cache.refreshPeriodically();
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

  /**
   * Raises the tables and stores the retention, which takes effect in this replica immediately. Throws ApiError storage_unavailable with
   * nothing changed if the tables cannot be raised.
   */
  async set(orgId: string, { log_rules, ...days }: RetentionColumns): Promise<Retention> {
    const retention = this.#merge({ ...days, log_rules });
    const store = async (): Promise<void> => await this.#store(orgId, { ...days, log_rules: JSON.stringify(retention.logRules) });
    const tables = this.#tables;
    if (!tables) await store();
    else {
      await this.#claimTables(tables, async () => {
        await tables.raise({ logs: retention.logsDays, traces: retention.tracesDays }).catch(cannotRaise);
        await this.#readKept();
        await store();
      });
    }
    this.#cache.put(orgId, retention);
    return retention;
  }

  /**
   * Runs a step while no replica changes the limits of tables: one that lowers them must not have read the retentions before another one
   * stores a longer one. Throws ApiError storage_unavailable if a replica has not finished its change.
   */
  async #claimTables(tables: TableLimits, step: () => Promise<void>): Promise<void> {
    await tables.exclusively(async () => {
      for (let tries = 1; !(await claimJob(this.#db, TABLES_JOB, Date.now(), TABLES_JOB_MS)); tries += 1) {
        if (tries === CLAIM_TRIES) cannotRaise(new Error("another replica is changing the tables"));
        await sleep(CLAIM_EVERY_MS);
      }
      try {
        await step();
      } finally {
        await releaseJob(this.#db, TABLES_JOB);
      }
    });
  }

  async #store(orgId: string, columns: Omit<RetentionColumns, "log_rules"> & { readonly log_rules: string }): Promise<void> {
    await tenantDatabase(this.#db, orgId)
      .insertInto("org_retention")
      .values({ org_id: orgId, ...columns })
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet(columns))
      .execute();
  }

  /** Reads the tables again if another replica has raised them, and sometimes in case one has lowered them. */
  async #refreshAll(): Promise<ReadonlyMap<string, Retention>> {
    const organisations = await this.readAll();
    const { logs, traces } = this.#longest(organisations);
    const isOutdated = performance.now() - this.#keptAtMs >= READ_TABLES_EVERY_MS;
    if (isOutdated || logs > this.#kept.logs || traces > this.#kept.traces) {
      // Safe to ignore: what is known is used, and other users of the tables report that they are unavailable.
      await this.#readKept().catch(() => undefined);
    }
    return organisations;
  }

  async #readKept(): Promise<void> {
    if (!this.#tables) return;
    this.#kept = await this.#tables.read();
    this.#keptAtMs = performance.now();
  }

  #longest(organisations: ReadonlyMap<string, Retention>): SignalDays {
    const all = [this.defaults, ...organisations.values()];
    return { logs: Math.max(...all.map(({ logsDays }) => logsDays)), traces: Math.max(...all.map(({ tracesDays }) => tracesDays)) };
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
      // Levels of log records are stored in lower case. Rules of earlier versions can have others.
      logRules: log_rules.map((rule) => (rule.level === undefined ? rule : { ...rule, level: rule.level.toLowerCase() })),
    };
  }
}

function cannotRaise(cause: unknown): never {
  throw new ApiError(
    "storage_unavailable",
    "the retention was not changed, because the tables of logs and traces cannot be changed now: try again",
    { cause, retryAfterS: 5 },
  );
}
