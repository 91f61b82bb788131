// The service level objectives of organisations in the database, with the rules that are generated for them. Invariant: an objective and its
// rules change in one transaction, and every statement names the organisation.
import { randomUUID } from "node:crypto";
import type { Kysely, Selectable, Transaction } from "kysely";
import { invalidField, notFound } from "../http/schemas.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";
import { requireUniqueName } from "../engines/relational/row-limits.ts";
import { bytesOf } from "./alert-rule.ts";
import { type AlertingTables, changeRules, checkRules, columnsOf, type SlosTable } from "./alert-rule-table.ts";
import { MAX_SLOS_PER_ORG } from "./alerting-limits.ts";
import { definitionOf, type Slo, type SloBody } from "./slo.ts";
import { burnRateRules } from "./slo-rules.ts";

const NOUN = "service level objective";

export interface StoredSlo extends Slo {
  readonly revision: number;
  /** Why the evaluator refused its recording rules. */
  readonly refused: string | undefined;
}

export class SloTable {
  readonly #db: Kysely<AlertingTables>;

  constructor(db: Kysely<AlertingTables>) {
    this.#db = db;
  }

  #rows(orgId: string) {
    return tenantDatabase(this.#db, orgId).selectFrom("slos").selectAll().where("org_id", "=", orgId);
  }

  /** By name. */
  async list(orgId: string): Promise<StoredSlo[]> {
    return (await this.#rows(orgId).orderBy("name").orderBy("id").execute()).map(sloOf);
  }

  /** Throws ApiError `not_found`. */
  async find(orgId: string, id: string): Promise<Slo> {
    const row = await this.#rows(orgId).where("id", "=", id).executeTakeFirst();
    if (!row) throw notFound(NOUN);
    return sloOf(row);
  }

  /** Throws ApiError `conflict` if a name is taken, `invalid_field` if there are too many objectives or rules. */
  async create(orgId: string, body: SloBody): Promise<Slo> {
    return await this.#change(orgId, body, async (trx, revision) => {
      const { count } = await trx
        .selectFrom("slos")
        .select(({ fn }) => fn.countAll<string>().as("count"))
        .where("org_id", "=", orgId)
        .executeTakeFirstOrThrow();
      if (Number(count) >= MAX_SLOS_PER_ORG)
        throw invalidField("slos", `an organisation has at most ${MAX_SLOS_PER_ORG} service level objectives: delete one first`);
      const now = new Date();
      const times = { created_at: now, defined_at: now, due_at: now };
      const row = { id: randomUUID(), org_id: orgId, revision, ...times, ...columnsOfSlo(body), ...UNCOUNTED };
      return await writeRules(trx, await trx.insertInto("slos").values(row).returningAll().executeTakeFirstOrThrow(), revision);
    });
  }

  /** Throws ApiError `not_found`, and as `create`. */
  async replace(orgId: string, id: string, body: SloBody): Promise<Slo> {
    return await this.#change(orgId, body, async (trx, revision) => {
      const before = await trx.selectFrom("slos").selectAll().where("org_id", "=", orgId).where("id", "=", id).executeTakeFirst();
      if (!before) throw notFound(NOUN);
      const columns = columnsOfSlo(body);
      const isRedefined = columns.definition !== before.definition;
      const row = await trx
        .updateTable("slos")
        .set({
          ...columns,
          revision,
          refused: null,
          due_at: new Date(),
          ...(isRedefined && { defined_at: new Date(), locked_until: null, ...UNCOUNTED }),
        })
        .where("org_id", "=", orgId)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirstOrThrow();
      return await writeRules(trx, row, revision);
    });
  }

  /** Also deletes its rules. Throws ApiError `not_found`. */
  async delete(orgId: string, id: string): Promise<string> {
    return await changeRules(this.#db, orgId, async (trx) => {
      await trx.deleteFrom("rules").where("org_id", "=", orgId).where("slo_id", "=", id).execute();
      const row = await trx.deleteFrom("slos").where("org_id", "=", orgId).where("id", "=", id).returning("name").executeTakeFirst();
      if (!row) throw notFound(NOUN);
      return row.name;
    });
  }

  async #change<T>(
    orgId: string,
    { name }: SloBody,
    change: (trx: Transaction<AlertingTables>, revision: number) => Promise<T>,
  ): Promise<T> {
    return await requireUniqueName(`${NOUN} or rule for it with the name`, name, () => changeRules(this.#db, orgId, change));
  }
}

const UNCOUNTED = { counted_until: null, received_until: null, error: null } as const;

/** Writes the generated rules; without `alerts`, removes them. Their ids stay, so alerts keep their state. */
async function writeRules(trx: Transaction<AlertingTables>, row: Selectable<SlosTable>, revision: number): Promise<Slo> {
  const slo = sloOf(row);
  const { orgId, id } = slo;
  const existing = await trx.selectFrom("rules").select("id").where("org_id", "=", orgId).where("slo_id", "=", id).execute();
  const rules = slo.alerts ? burnRateRules(slo) : [];
  if (rules.length === 0) await trx.deleteFrom("rules").where("org_id", "=", orgId).where("slo_id", "=", id).execute();
  if (existing.length === 0 && rules.length > 0)
    await checkRules(trx, orgId, { count: rules.length, bytes: rules.reduce((sum, rule) => sum + bytesOf(rule), 0) });
  for (const [at, { id: ruleId, ...rule }] of rules.entries()) {
    const columns = { ...columnsOf(rule), revision };
    await trx
      .insertInto("rules")
      .values({ id: ruleId, org_id: orgId, slo_id: id, created_at: new Date(slo.createdAt.getTime() + at), ...columns })
      .onConflict((conflict) => conflict.column("id").doUpdateSet({ ...columns, refused: null }))
      .execute();
  }
  return slo;
}

function columnsOfSlo(slo: SloBody) {
  const { name, ...body } = slo;
  return { name, body: JSON.stringify(body), definition: definitionOf(slo) };
}

export function sloOf({ id, org_id, name, body, definition, defined_at, created_at, ...row }: Selectable<SlosTable>): StoredSlo {
  const fields = JSON.parse(body) as Omit<SloBody, "name">;
  const refused = row.refused ?? undefined;
  const state = { error: refused ?? row.error ?? undefined, refused, revision: row.revision };
  return { ...fields, id, orgId: org_id, name, definition, definedAt: defined_at, createdAt: created_at, ...state };
}
