// Limits the relational store to one organisation. Selects, updates and deletes get the organisation's condition on each table that they
// name, inserts have to name the organisation, and statements that cannot be checked are refused. Invariant: a statement whose author
// forgot `org_id = …` neither reads nor changes another organisation's rows. Jobs and logins serve all, so they use the plain store.
import {
  AliasNode,
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  type ColumnUpdateNode,
  type DeleteQueryNode,
  type FromNode,
  IdentifierNode,
  type InsertQueryNode,
  type JoinNode,
  type Kysely,
  type KyselyPlugin,
  type OnConflictNode,
  OnNode,
  type OperationNode,
  OperationNodeTransformer,
  OperatorNode,
  ParensNode,
  type PluginTransformQueryArgs,
  type PluginTransformResultArgs,
  type QueryResult,
  type RawNode,
  ReferenceNode,
  type RootOperationNode,
  SelectionNode,
  SelectQueryNode,
  TableNode,
  type Transaction,
  type UnknownRow,
  type UpdateQueryNode,
  ValueNode,
  type ValuesItemNode,
  ValuesNode,
  WhereNode,
} from "kysely";

/** Where the organisation of a row is found: in a column, or in the row that a column refers to. */
interface Ownership {
  readonly column: string;
  /** The table in which `column` is the id of a row. */
  readonly parent?: string;
}

const OWN: Ownership = { column: "org_id" };
/** Every table with rows of organisations. `tenant-database.engine.test.ts` compares the list with the schema. */
export const TENANT_TABLES: Readonly<Record<string, Ownership>> = {
  orgs: { column: "id" },
  users: OWN,
  read_tokens: OWN,
  invitations: OWN,
  ingest_tokens: OWN,
  browser_sessions: { column: "user_id", parent: "users" },
  trusted_issuers: OWN,
  api_keys: OWN,
  install_tokens: OWN,
  clusters: OWN,
  cluster_nodes: { column: "cluster_id", parent: "clusters" },
  hosts: OWN,
  series_sketches: OWN,
  org_limits: OWN,
  org_retention: OWN,
  org_deletions: OWN,
  usage_days: OWN,
  audit_log: OWN,
  rule_sets: OWN,
  slos: OWN,
  rules: OWN,
  log_counts: OWN,
  channels: OWN,
  routes: OWN,
  silences: OWN,
  notification_settings: OWN,
  alerts: OWN,
  alert_groups: OWN,
  deliveries: OWN,
  notification_turns: OWN,
  saved_items: OWN,
};

/** Transactions that are begun in it are limited in the same way. */
export function tenantDatabase<T>(db: Transaction<T>, orgId: string): Transaction<T>;
export function tenantDatabase<T>(db: Kysely<T>, orgId: string): Kysely<T>;
export function tenantDatabase<T>(db: Kysely<T>, orgId: string): Kysely<T> {
  if (typeof orgId !== "string" || orgId === "") throw new TenantStatementError("there is no organisation");
  return db.withPlugin(new TenantPlugin(orgId));
}

/** A transaction of a store with organisations; `trx.$extendTables<OrgTable>()` if the types of its tables do not include them. */
export interface OrgLocker {
  selectFrom(table: "orgs"): {
    select(column: "id"): { where(column: "id", operator: "=", id: string): { forNoKeyUpdate(): { execute(): Promise<unknown> } } };
  };
}

export type OrgTable = { orgs: { id: string } };

/** Changes that call this first run one after another per organisation, until their transactions end. */
export async function lockOrg(trx: OrgLocker, orgId: string): Promise<void> {
  await trx.selectFrom("orgs").select("id").where("id", "=", orgId).forNoKeyUpdate().execute();
}

/** Thrown for a bug in this program, never because of a request. */
export class TenantStatementError extends Error {
  override readonly name = "TenantStatementError";
  constructor(why: string) {
    super(`a statement on behalf of an organisation is refused: ${why}`);
  }
}

class TenantPlugin implements KyselyPlugin {
  readonly #transformer: TenantTransformer;

  constructor(orgId: string) {
    this.#transformer = new TenantTransformer(orgId);
  }

  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    if (!KINDS.has(node.kind)) throw new TenantStatementError(`${node.kind} is not supported`);
    return this.#transformer.transformNode(node);
  }

  async transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    return result;
  }
}

const KINDS = new Set<string>(["SelectQueryNode", "InsertQueryNode", "UpdateQueryNode", "DeleteQueryNode"]);
const JOINS = new Set<string>(["InnerJoin", "LeftJoin"]);
/** Raw SQL may compute but not name a table, because the table would get no condition. */
const NAMES_TABLE = /\b(?:from|join|into|update|table|with)\b/i;

/** A table with rows of organisations, and the alias by which its columns are referred to. */
interface Source extends Ownership {
  readonly name: string;
}

class TenantTransformer extends OperationNodeTransformer {
  readonly #orgId: string;

  constructor(orgId: string) {
    super();
    this.#orgId = orgId;
  }

  protected override transformSelectQuery(node: SelectQueryNode): SelectQueryNode {
    refuse(node.with, "WITH");
    const query = super.transformSelectQuery(node);
    return { ...query, ...this.#limited(query.where, sourcesOf(node.from)) };
  }

  protected override transformUpdateQuery(node: UpdateQueryNode): UpdateQueryNode {
    refuse(node.with, "WITH");
    const query = super.transformUpdateQuery(node);
    const target = requireSource(node.table);
    if (target) refuseOwnerChange(target, node.updates);
    return { ...query, ...this.#limited(query.where, [...(target ? [target] : []), ...sourcesOf(node.from)]) };
  }

  protected override transformDeleteQuery(node: DeleteQueryNode): DeleteQueryNode {
    refuse(node.with, "WITH");
    refuse(node.using, "USING");
    const query = super.transformDeleteQuery(node);
    return { ...query, ...this.#limited(query.where, sourcesOf(node.from)) };
  }

  protected override transformInsertQuery(node: InsertQueryNode): InsertQueryNode {
    refuse(node.with, "WITH");
    if (node.replace || node.orAction || node.onDuplicateKey) throw new TenantStatementError("only ON CONFLICT is supported");
    const target = requireSource(node.into);
    if (!target) throw new TenantStatementError("INSERT has no table");
    if (target.parent !== undefined) throw new TenantStatementError(`the organisation of a new row of ${target.name} cannot be checked`);
    this.#requireOwnRows(target, node);
    const query = super.transformInsertQuery(node);
    return query.onConflict ? { ...query, onConflict: this.#ownConflict(target, query.onConflict) } : query;
  }

  protected override transformJoin(node: JoinNode): JoinNode {
    const join = super.transformJoin(node);
    const source = requireSource(node.table);
    if (!source) return join;
    if (!JOINS.has(node.joinType)) throw new TenantStatementError(`${node.joinType} is not supported`);
    // The condition is in ON, not in WHERE, so that a left join keeps rows without a match.
    return { ...join, on: OnNode.create(and(this.#condition(source), join.on?.on)) };
  }

  protected override transformRaw(node: RawNode): RawNode {
    if (NAMES_TABLE.test(node.sqlFragments.join(" ? "))) throw new TenantStatementError("plain SQL that names a table");
    return super.transformRaw(node);
  }

  #limited(where: WhereNode | undefined, sources: readonly Source[]): { where?: WhereNode } {
    if (sources.length === 0) return {};
    const all = sources.map((source) => this.#condition(source)).reduce((left, right) => AndNode.create(left, right));
    return { where: WhereNode.create(and(all, where?.where)) };
  }

  #condition({ name, column, parent }: Source): OperationNode {
    const reference = ReferenceNode.create(ColumnNode.create(column), TableNode.create(name));
    if (parent === undefined) return BinaryOperationNode.create(reference, OperatorNode.create("="), ValueNode.create(this.#orgId));
    const ids = SelectQueryNode.cloneWithSelections(SelectQueryNode.createFrom([TableNode.create(parent)]), [
      SelectionNode.create(ReferenceNode.create(ColumnNode.create("id"), TableNode.create(parent))),
    ]);
    const own = { ...ids, where: WhereNode.create(this.#condition({ name: parent, ...owned(parent) })) };
    return BinaryOperationNode.create(reference, OperatorNode.create("in"), ParensNode.create(own));
  }

  #requireOwnRows({ name, column }: Source, { columns = [], values }: InsertQueryNode): void {
    const at = columns.findIndex((node) => node.column.name === column);
    if (at === -1 || !values || !ValuesNode.is(values)) throw new TenantStatementError(`a new row of ${name} has no ${column}`);
    for (const row of values.values)
      if (valueAt(row, at) !== this.#orgId) throw new TenantStatementError(`a new row of ${name} is of another organisation`);
  }

  /** The conflicting row may belong to another organisation; then it stays unchanged. */
  #ownConflict(target: Source, conflict: OnConflictNode): OnConflictNode {
    if (!conflict.updates) return conflict;
    refuseOwnerChange(target, conflict.updates);
    return { ...conflict, updateWhere: WhereNode.create(and(this.#condition(target), conflict.updateWhere?.where)) };
  }
}

function and(condition: OperationNode, others: OperationNode | undefined): OperationNode {
  return others ? AndNode.create(condition, ParensNode.create(others)) : condition;
}

function refuse(node: OperationNode | undefined, what: string): void {
  if (node) throw new TenantStatementError(`${what} is not supported`);
}

function refuseOwnerChange({ name, column }: Source, updates: readonly ColumnUpdateNode[] = []): void {
  for (const { column: updated } of updates)
    if (!ColumnNode.is(updated) || updated.column.name === column) throw new TenantStatementError(`${name}.${column} cannot be changed`);
}

function sourcesOf(from: FromNode | undefined): Source[] {
  return (from?.froms ?? []).flatMap((node) => requireSource(node) ?? []);
}

/** Undefined for a subquery, which gets its own conditions. */
function requireSource(node: OperationNode | undefined): Source | undefined {
  if (!node) return undefined;
  const [table, alias] = AliasNode.is(node) ? [node.node, node.alias] : [node, undefined];
  if (SelectQueryNode.is(table)) return undefined;
  if (!TableNode.is(table) || table.table.schema) throw new TenantStatementError(`${table.kind} instead of a table`);
  const name = table.table.identifier.name;
  return { ...owned(name), name: alias && IdentifierNode.is(alias) ? alias.name : name };
}

function owned(table: string): Ownership {
  const ownership = Object.hasOwn(TENANT_TABLES, table) ? TENANT_TABLES[table] : undefined;
  if (!ownership) throw new TenantStatementError(`the table ${table} has no organisation`);
  return ownership;
}

function valueAt(row: ValuesItemNode, at: number): unknown {
  if (row.kind === "PrimitiveValueListNode") return row.values[at];
  const node = row.values[at];
  return node && ValueNode.is(node) ? node.value : undefined;
}
