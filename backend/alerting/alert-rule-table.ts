// The rules of all organisations in the database. Invariant: every statement names the organisation, so that a rule of another one is
// never seen or changed; every change raises the organisation's revision in the same transaction.
import { randomUUID } from "node:crypto";
import { type ColumnType, type Generated, type Kysely, type Selectable, sql, type Transaction } from "kysely";
import { ApiError } from "../errors.ts";
import { invalidField } from "../http/schemas.ts";
import { MAX_FOR_MS, MAX_LOG_RULES_PER_ORG, MAX_RULES_BYTES_PER_ORG, MAX_RULES_PER_ORG } from "./alerting-limits.ts";
import { removeCount, type LogCountsTable, scheduleCount } from "./log-count-rows.ts";
import { countEveryMs, expressionOf, isSameCondition, type LogCondition } from "./log-condition.ts";
import { bytesOf, type CheckedRule, readForMs, type Rule, type RuleBody, type Severity } from "./alert-rule.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";
import { requireUniqueName } from "../engines/relational/row-limits.ts";

type Json = ColumnType<Record<string, string>, string, string>;

interface RulesTable {
  id: string;
  org_id: string;
  name: string;
  severity: Severity;
  expr: string;
  /** JSON of a LogCondition; null: `expr` is over metrics. */
  logs: Generated<string | null>;
  for_duration: string;
  enabled: boolean;
  labels: Json;
  annotations: Json;
  revision: number;
  refused: Generated<string | null>;
  slo_id: Generated<string | null>;
  created_at: Date;
}

/** A row of a service level objective (slo-table.ts, slo-recorder.ts). */
export interface SlosTable {
  id: string;
  org_id: string;
  name: string;
  body: string;
  definition: string;
  defined_at: Date;
  created_at: Date;
  due_at: Date;
  locked_until: Date | null;
  counted_until: Date | null;
  received_until: Date | null;
  error: string | null;
  revision: Generated<number>;
  refused: Generated<string | null>;
}

/** A rule, or an objective with its recording rules. */
export interface Stored {
  readonly table: "rules" | "slos";
  readonly orgId: string;
  readonly id: string;
  readonly revision: number;
}

export interface AlertingTables {
  rules: RulesTable;
  slos: SlosTable;
  rule_sets: { org_id: string; revision: number };
  log_counts: LogCountsTable;
}

export class RuleTable {
  readonly #db: Kysely<AlertingTables>;

  constructor(db: Kysely<AlertingTables>) {
    this.#db = db;
  }

  /** Oldest first. */
  async list(orgId: string): Promise<Rule[]> {
    const rows = await this.#rows(orgId).where("rules.org_id", "=", orgId).orderBy("rules.created_at").orderBy("rules.id").execute();
    return rows.map(ruleOf);
  }

  /** Undefined also for a rule of another organisation. */
  async find(orgId: string, id: string): Promise<Rule | undefined> {
    const row = await this.#rows(orgId).where("rules.org_id", "=", orgId).where("rules.id", "=", id).executeTakeFirst();
    return row && ruleOf(row);
  }

  #rows(orgId: string) {
    const counts = ["log_counts.since_at", "log_counts.counted_at", "log_counts.error as count_error"] as const;
    const tenantDb = tenantDatabase(this.#db, orgId);
    return tenantDb.selectFrom("rules").leftJoin("log_counts", "log_counts.rule_id", "rules.id").selectAll("rules").select(counts);
  }

  /** Throws ApiError `conflict` if the name is taken, `invalid_field` if there are too many rules or too much text in them. */
  async create(orgId: string, rule: CheckedRule): Promise<Rule> {
    return await this.#change(orgId, rule.name, async (trx, revision) => {
      await checkRules(trx, orgId, { count: 1, bytes: bytesOf(rule) });
      if (rule.logs) await checkLogRules(trx, orgId);
      const row = { id: randomUUID(), org_id: orgId, created_at: new Date(), revision, ...columnsOf(rule) };
      const created = ruleOf(await trx.insertInto("rules").values(row).returningAll().executeTakeFirstOrThrow());
      await schedule(trx, created);
      return created;
    });
  }

  /**
   * Replaces the whole rule. Throws ApiError `not_found`, `conflict` if the name is taken, `invalid_field` if the rule grows and the rules
   * then have too much text.
   */
  async replace(orgId: string, id: string, rule: CheckedRule): Promise<Rule> {
    return await this.#change(orgId, rule.name, async (trx, revision) => {
      const before = await trx.selectFrom("rules").selectAll().where("org_id", "=", orgId).where("id", "=", id).executeTakeFirst();
      if (!before) return notFound();
      if (before.slo_id !== null) throw generated();
      const growth = bytesOf(rule) - bytesOf(ruleOf(before));
      if (rule.logs && before.logs === null) await checkLogRules(trx, orgId);
      if (growth > 0) checkBytes((await sizeOf(trx, orgId)).bytes + growth);
      const counted = before.logs === null ? undefined : (JSON.parse(before.logs) as LogCondition);
      const logs = rule.logs && { ...rule.logs, since: counted && isSameCondition(counted, rule.logs) ? counted.since : revision };
      const row = await trx
        .updateTable("rules")
        .set({ ...columnsOf({ ...rule, ...(logs && { logs }) }), revision, refused: null })
        .where("org_id", "=", orgId)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirst();
      const replaced = ruleOf(row ?? notFound());
      await schedule(trx, replaced, counted);
      return replaced;
    });
  }

  /** Throws ApiError `not_found`. */
  async delete(orgId: string, id: string): Promise<void> {
    await this.#change(orgId, "", async (trx) => {
      const row = await trx.deleteFrom("rules").where("org_id", "=", orgId).where("id", "=", id).returning("slo_id").executeTakeFirst();
      // The transaction is rolled back.
      if ((row ?? notFound()).slo_id !== null) throw generated();
    });
  }

  /** Every organisation that ever had a rule, in a stable order. */
  async revisions(): Promise<{ orgId: string; revision: number }[]> {
    const rows = await this.#db.selectFrom("rule_sets").selectAll().orderBy("org_id").execute();
    return rows.map((row) => ({ orgId: row.org_id, revision: row.revision }));
  }

  /** Records why the evaluator rejects this revision; does nothing if it has changed since. */
  async refuse({ table, orgId, id, revision }: Stored, reason: string): Promise<void> {
    await this.#change(orgId, "", (trx) =>
      // Both tables have these columns.
      trx
        .updateTable(table as "rules")
        .set({ refused: reason })
        .where("id", "=", id)
        .where("revision", "=", revision)
        .execute(),
    );
  }

  /** Allows another try of the oldest rule, or else objective, that was rejected for this reason. Returns whether there was one. */
  async readmit(reason: string): Promise<boolean> {
    return (await this.#readmitOf("rules", reason)) || (await this.#readmitOf("slos" as "rules", reason));
  }

  async #readmitOf(table: "rules", reason: string): Promise<boolean> {
    const withheld = await this.#db
      .selectFrom(table)
      .select(["id", "org_id"])
      .where("refused", "=", reason)
      .orderBy("created_at")
      .limit(1)
      .executeTakeFirst();
    if (!withheld) return false;
    await this.#change(withheld.org_id, "", (trx, revision) =>
      trx.updateTable(table).set({ refused: null, revision }).where("id", "=", withheld.id).where("refused", "=", reason).execute(),
    );
    return true;
  }

  async #change<T>(orgId: string, name: string, change: (trx: Transaction<AlertingTables>, revision: number) => Promise<T>): Promise<T> {
    return await requireUniqueName("rule", name, () => changeRules(this.#db, orgId, change));
  }
}

/** Raises the revision of the organisation's rules and makes a change in one transaction; changes of one organisation wait for each other. */
export async function changeRules<T>(
  db: Kysely<AlertingTables>,
  orgId: string,
  change: (trx: Transaction<AlertingTables>, revision: number) => Promise<T>,
): Promise<T> {
  const tenantDb = tenantDatabase(db, orgId);
  return await tenantDb.transaction().execute(async (trx) => {
    const { revision } = await trx
      .insertInto("rule_sets")
      .values({ org_id: orgId, revision: 1 })
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet({ revision: sql`rule_sets.revision + 1` }))
      .returning("revision")
      .executeTakeFirstOrThrow();
    return await change(trx, revision);
  });
}

/** Throws ApiError `invalid_field` if the organisation cannot have these additional rules. */
export async function checkRules(
  trx: Transaction<AlertingTables>,
  orgId: string,
  added: { readonly count: number; readonly bytes: number },
): Promise<void> {
  const { count, bytes } = await sizeOf(trx, orgId);
  if (count + added.count > MAX_RULES_PER_ORG)
    throw invalidField("rules", `an organisation has at most ${MAX_RULES_PER_ORG} rules: delete one first`);
  checkBytes(bytes + added.bytes);
}

function generated(): ApiError {
  return new ApiError("conflict", "this rule is generated for a service level objective: change or delete the objective");
}

/** The answer for a rule that does not exist, is of another organisation, or has a malformed id. */
export function notFound(): never {
  throw new ApiError("not_found", "rule not found in your organisation");
}

async function sizeOf(trx: Transaction<AlertingTables>, orgId: string): Promise<{ readonly count: number; readonly bytes: number }> {
  const text = sql`octet_length(name) + octet_length(expr) + coalesce(octet_length(logs), 0) + octet_length(CAST(labels AS text)) + octet_length(CAST(annotations AS text))`;
  const { count, bytes } = await trx
    .selectFrom("rules")
    .select(({ fn }) => [fn.countAll<string>().as("count"), sql<string | null>`sum(${text})`.as("bytes")])
    .where("org_id", "=", orgId)
    .executeTakeFirstOrThrow();
  return { count: Number(count), bytes: Number(bytes ?? 0) };
}

async function checkLogRules(trx: Transaction<AlertingTables>, orgId: string): Promise<void> {
  const { count } = await trx
    .selectFrom("rules")
    .select(({ fn }) => fn.countAll<string>().as("count"))
    .where("org_id", "=", orgId)
    .where("logs", "is not", null)
    .executeTakeFirstOrThrow();
  if (Number(count) >= MAX_LOG_RULES_PER_ORG)
    throw invalidField("logs", `an organisation has at most ${MAX_LOG_RULES_PER_ORG} log rules: delete one first`);
}

/** `before`: the condition before the change. */
async function schedule(trx: Transaction<AlertingTables>, { id, orgId, logs, enabled }: Rule, before?: LogCondition): Promise<void> {
  if (!logs) return before && (await removeCount(trx, id));
  const isNew = !before || !isSameCondition(before, logs);
  await scheduleCount(trx, { ruleId: id, orgId, now: new Date(), enabled, isNew });
}

function checkBytes(bytes: number): void {
  if (bytes <= MAX_RULES_BYTES_PER_ORG) return;
  throw invalidField("rules", `the text of all rules has at most ${MAX_RULES_BYTES_PER_ORG} bytes: shorten or delete one first`);
}

export function columnsOf(rule: RuleBody) {
  return {
    name: rule.name,
    severity: rule.severity,
    expr: rule.expr,
    logs: rule.logs ? JSON.stringify(rule.logs) : null,
    for_duration: rule.for,
    enabled: rule.enabled,
    labels: JSON.stringify(rule.labels),
    annotations: JSON.stringify(rule.annotations),
  };
}

/** A rule row, with the state of its log counts if they were joined. */
type Row = Selectable<RulesTable> & { since_at?: Date | null; counted_at?: Date | null; count_error?: string | null };

/** A `for` that cannot be parsed, which no version of this service writes, marks the rule as rejected, so vmalert never gets it. */
function ruleOf(row: Row): Rule {
  const forTime = readStoredFor(row.for_duration);
  const logs = row.logs === null ? undefined : (JSON.parse(row.logs) as LogCondition);
  return {
    id: row.id,
    orgId: row.org_id,
    name: row.name,
    severity: row.severity,
    expr: logs ? expressionOf(logs) : row.expr,
    ...(logs && { logs, uncounted: row.count_error ?? describeLateCount(logs, row) }),
    for: row.for_duration,
    forMs: forTime.ms,
    enabled: row.enabled,
    labels: row.labels,
    annotations: row.annotations,
    revision: row.revision,
    ...(row.slo_id !== null && { sloId: row.slo_id }),
    refused: forTime.refused ?? row.refused ?? undefined,
    createdAt: row.created_at,
  };
}

/** A count is late after three of its intervals, but never before a minute. */
const [LATE_INTERVALS, LATE_MS] = [3, 60_000];

function describeLateCount(logs: LogCondition, { since_at: since, counted_at: counted }: Row): string | undefined {
  const lastMs = Math.max(since?.getTime() ?? Date.now(), counted?.getTime() ?? 0);
  if (Date.now() - lastMs < Math.max(LATE_MS, LATE_INTERVALS * countEveryMs(logs))) return undefined;
  const last = counted ? `were last counted at ${counted.toISOString()}` : "have not been counted yet";
  return `its records ${last}: the organisation's log rules need more than their share of the log store, or no process counts records`;
}

function readStoredFor(text: string): { readonly ms: number; readonly refused?: string } {
  try {
    return { ms: readForMs(text) };
  } catch (error) {
    return { ms: MAX_FOR_MS, refused: (error as ApiError).message };
  }
}
