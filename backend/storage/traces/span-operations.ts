// Stores which services an organisation has, with their operations and kinds, next to the spans, so that listing them reads no spans.
// Invariants: an operation is written before the first of its spans and again on each new day; an operation that is known to be written
// costs nothing; the number per organisation is limited, however many names its senders make up.
import { createHash } from "node:crypto";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { MAX_OPERATIONS_PER_ORG, MAX_OPERATIONS_PER_SERVICE, MAX_REMEMBERED_OPERATIONS, MAX_SERVICES_PER_ORG } from "../storage-limits.ts";
import { GroupCommit } from "../write-path/group-commit.ts";
import { type NativeColumns, nativeRows } from "../../engines/clickhouse/native-block.ts";
import { ConstantColumn, encodedString, encodedUint32, StringColumn } from "../../engines/clickhouse/native-columns.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import type { DayOperations, Operation } from "./operations-of.ts";

const COLUMNS = [
  ["org_id", "constant String"],
  ["time", "constant DateTime"],
  ["service", "String"],
  ["operation", "String"],
  ["kind", "String"],
] as const satisfies NativeColumns;

const DAY_S = 86_400;

export class SpanOperations implements AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  /** One per shard. */
  readonly #commits: readonly GroupCommit[];
  readonly #maxRemembered: number;
  /** Least recently used first. */
  readonly #orgs = new Map<string, OrgOperations>();
  #remembered = 0;

  constructor(clickhouse: ClickHouse, maxRemembered = MAX_REMEMBERED_OPERATIONS) {
    this.#clickhouse = clickhouse;
    this.#maxRemembered = maxRemembered;
    this.#commits = clickhouse.shards.map((_, shard) => new GroupCommit({ clickhouse, table: "span_operations", columns: COLUMNS, shard }));
  }

  /** Resolves when all operations within the limits are written. Throws ApiError storage_unavailable. */
  async store(orgId: string, days: readonly DayOperations[]): Promise<void> {
    const org = this.#orgs.get(orgId) ?? this.#read(orgId);
    this.#orgs.delete(orgId);
    this.#orgs.set(orgId, org);
    await org.isRead;
    if (days.every((day) => org.unwritten(day).length === 0)) return;
    // Writes of an organisation run one after the other, so that none is done twice and no limit is exceeded.
    const write = () => this.#write(orgId, org, days);
    org.lastWrite = org.lastWrite.then(write, write);
    await org.lastWrite;
  }

  /** Commits pending rows. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const commit of this.#commits) await commit[Symbol.asyncDispose]();
  }

  async #write(orgId: string, org: OrgOperations, days: readonly DayOperations[]): Promise<void> {
    for (const day of days) {
      const operations = org.unwritten(day);
      if (operations.length === 0) continue;
      await (this.#commits[this.#clickhouse.shardOf({ orgId })] as GroupCommit).add(orgId, { rows: rowsOf(orgId, day.day, operations) });
      this.#remember(orgId, org, operations, day.day);
    }
  }

  #read(orgId: string): OrgOperations {
    const org = new OrgOperations();
    const read = async (): Promise<void> => {
      // The operations of an organisation are on one shard, so that spans are accepted while another shard is unavailable.
      const shard = this.#clickhouse.shards[this.#clickhouse.shardOf({ orgId })] ?? this.#clickhouse;
      const rows = await shard.query<Operation & { day: number }>(
        sql`SELECT service, operation, kind, intDiv(toUnixTimestamp(max(time)), ${DAY_S}) - 1 AS day FROM span_operations
            WHERE org_id = ${orgId} GROUP BY service, operation, kind LIMIT ${MAX_OPERATIONS_PER_ORG + MAX_SERVICES_PER_ORG}`,
      );
      for (const row of rows) this.#remember(orgId, org, [row], row.day);
    };
    org.isRead = read().catch((error: unknown) => {
      // The next call reads them again.
      if (this.#orgs.get(orgId) === org) this.#orgs.delete(orgId);
      throw error;
    });
    return org;
  }

  /** Evicts the least recently used other organisations if the limit is exceeded. */
  #remember(orgId: string, org: OrgOperations, operations: readonly Operation[], day: number): void {
    const added = org.remember(operations, day);
    if (this.#orgs.get(orgId) !== org) return;
    this.#remembered += added;
    for (const [otherId, other] of this.#orgs) {
      if (this.#remembered <= this.#maxRemembered) return;
      if (other === org) continue;
      this.#orgs.delete(otherId);
      this.#remembered -= other.size;
    }
  }
}

/** The operations of one organisation that are written. */
class OrgOperations {
  isRead: Promise<void> = Promise.resolve();
  lastWrite: Promise<void> = Promise.resolve();
  /** The last day on which an operation was written, by its hash, because names can be long. */
  readonly #days = new Map<number, number>();
  /** The number of operations of a service, by the hash of its name. */
  readonly #ofService = new Map<number, number>();

  get size(): number {
    return this.#days.size;
  }

  /** Operations that are not written for this day or a later one, within the limits. */
  unwritten({ day, operations }: DayOperations): Operation[] {
    const newOfService = new Map<number, number>();
    let services = this.#ofService.size;
    // One is reserved for each service that may come, so that its first operation is always listed.
    let remaining = MAX_OPERATIONS_PER_ORG - MAX_SERVICES_PER_ORG - (this.size - services);
    return operations.filter((operation) => {
      const writtenDay = this.#days.get(hashOf(operation));
      if (writtenDay !== undefined) return writtenDay < day;
      const service = hashOf({ service: operation.service });
      const count = (this.#ofService.get(service) ?? 0) + (newOfService.get(service) ?? 0);
      const fits = count === 0 ? services < MAX_SERVICES_PER_ORG : remaining > 0 && count < MAX_OPERATIONS_PER_SERVICE;
      if (!fits) return false;
      newOfService.set(service, (newOfService.get(service) ?? 0) + 1);
      if (count === 0) services += 1;
      else remaining -= 1;
      return true;
    });
  }

  /** Returns how many of them are new. */
  remember(operations: readonly Operation[], day: number): number {
    const before = this.size;
    for (const operation of operations) {
      const hash = hashOf(operation);
      if (!this.#days.has(hash)) {
        const service = hashOf({ service: operation.service });
        this.#ofService.set(service, (this.#ofService.get(service) ?? 0) + 1);
      }
      this.#days.set(hash, Math.max(day, this.#days.get(hash) ?? day));
    }
    return this.size - before;
  }
}

/** 48 bits are enough: a sender that crafts two names with the same hash only hides its own name. */
function hashOf({ service, operation = "", kind = "" }: { service: string; operation?: string; kind?: string }): number {
  return createHash("sha1").update(`${service}\0${kind}\0${operation}`).digest().readUIntBE(0, 6);
}

function rowsOf(orgId: string, day: number, operations: readonly Operation[]) {
  const constants = [encodedString(orgId), encodedUint32((day + 1) * DAY_S)].map((bytes) => new ConstantColumn(bytes));
  const names = { service: new StringColumn(), operation: new StringColumn(), kind: new StringColumn() };
  for (const { service, operation, kind } of operations) {
    names.service.add(service);
    names.operation.add(operation);
    names.kind.add(kind);
  }
  return nativeRows([...constants, names.service, names.operation, names.kind], operations.length);
}
