// A simulated ClickHouse, in the place of the embedded one and of a server. Its tables survive the process. An insert stores each day
// (partition) of its rows whole or not at all; what it has answered stays, what it was storing when the process ended may be there or not; a
// server may still store it later. Invariant: rows are stored as they came, so that doubled and lost ones can be counted.
import { type NativeColumns, type NativeRows, streamsByColumn } from "../../backend/engines/clickhouse/native-block.ts";
import type { Engine, Insert } from "../../backend/engines/clickhouse/engine.ts";
import { machine } from "./machine.ts";

export interface StoredRow {
  readonly orgId: string;
  readonly hostId: string;
  readonly bodyHash: string;
  readonly day: number;
  readonly receivedS: number;
  readonly id: bigint;
}

/** How the engine answers inserts. */
export type InsertFault = "none" | "unavailable" | "stores and fails" | "stores some days and fails" | "slow";

export const COLUMNS: NativeColumns = [
  ["org_id", "constant String"],
  ["host_id", "constant String"],
  ["body_hash", "constant UInt64"],
  ["received_at", "constant DateTime"],
  ["time", "DateTime64(9)"],
  ["id", "UInt64"],
];
/** Rows of this sender are refused, as rows that the engine cannot read. */
export const REFUSED_HOST = "refused";

const INSERT_MS = 4;
const QUERY_MS = 2;
/** Shorter than the time that everything has to recover. */
const MAX_INSERT_MS = { embedded: 9000, server: 100_000 } as const;
/** The client's own time limit. A server continues with the insert. */
const REQUEST_TIMEOUT_MS = 60_000;
const DAY_NS = 86_400_000_000_000n;

/** The engine's data and faults; one per history. */
export class EngineState {
  rows: StoredRow[] = [];
  fault: InsertFault = "none";
  areQueriesFailing = false;
  /** Deduplication tokens of inserts, by partition. */
  readonly tokens = new Set<string>();
  readonly hits: Record<string, number> = {};
  /** Inserts of a server that may still store rows. */
  underWay = 0;
}

let state = new EngineState();

export function useEngine(next: EngineState): void {
  state = next;
}

export async function openEmbedded(): Promise<Engine> {
  return engineThat((insert) => store(insert, (ms) => machine().delay(ms), MAX_INSERT_MS.embedded));
}

/** A server continues with an insert whose client is gone or does not wait any more. */
export function openRemote(): Engine {
  return engineThat((insert) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const process = machine().running;
    const client = machine();
    const answerIn = (ms: number, settle: () => void): void =>
      client.outside(ms, () => {
        if (client.isAlive(process)) client.enter(process, settle);
      });
    const answer = (settle: () => void): void => answerIn(client.random.latencyMs(1), settle);
    const outside = (ms: number): Promise<void> => new Promise((done) => machine().outside(ms, done));
    const engine = state;
    engine.underWay += 1;
    store(insert, outside, MAX_INSERT_MS.server)
      .then(
        () => answer(resolve),
        (error: unknown) => answer(() => reject(error)),
      )
      .finally(() => (engine.underWay -= 1));
    answerIn(REQUEST_TIMEOUT_MS, () => reject(new Error("simulated: no response")));
    return promise;
  });
}

export function databaseOf(): string {
  return "default";
}

function engineThat(insert: Engine["insert"]): Engine {
  return {
    reads: 4,
    shardCount: 1,
    query,
    read: async (statement) => Buffer.from((await query(statement)).map((row) => JSON.stringify(row)).join("\n")),
    ping: async () => undefined,
    command: async () => undefined,
    insert,
    async [Symbol.asyncDispose]() {},
  };
}

async function store({ rows, columns, deduplicationToken }: Insert, wait: (ms: number) => Promise<void>, maxMs: number): Promise<void> {
  const { random } = machine();
  const engine = state;
  const decoded = rows.flatMap((section) => rowsOf(columns, section));
  const { fault } = engine;
  if (fault !== "none") engine.hits[fault] = (engine.hits[fault] ?? 0) + 1;
  const takesMs = Math.min(random.latencyMs(INSERT_MS) * (fault === "slow" ? random.pick([500, 5000]) : 1), maxMs);
  await wait(takesMs / 2);
  if (fault === "unavailable") throw failure("210", "simulated: connection refused");
  if (decoded.some(({ hostId }) => hostId === REFUSED_HOST)) throw failure("27", "simulated: cannot parse input");
  const days = [...new Set(decoded.map(({ day }) => day))];
  for (const day of days) {
    if (fault === "stores some days and fails" && random.chance(0.5)) continue;
    const token = `${deduplicationToken}:${day}`;
    if (deduplicationToken !== undefined && engine.tokens.has(token)) continue;
    if (deduplicationToken !== undefined) engine.tokens.add(token);
    engine.rows.push(...decoded.filter((row) => row.day === day));
    // The process may end between two partitions.
    if (days.length > 1) await wait(random.latencyMs(1));
  }
  await wait(takesMs / 2);
  if (fault === "stores and fails" || fault === "stores some days and fails") throw failure("159", "simulated: timeout");
}

async function query(statement: string): Promise<unknown[]> {
  const engine = state;
  await machine().delay(machine().random.latencyMs(QUERY_MS));
  if (engine.areQueriesFailing) {
    engine.hits["failing queries"] = (engine.hits["failing queries"] ?? 0) + 1;
    throw failure("210", "simulated: connection refused");
  }
  return select(engine.rows, statement);
}

/** Only the statements of stored-days.ts, and those of the auditor. */
function select(rows: readonly StoredRow[], statement: string): unknown[] {
  const number = (pattern: RegExp): number | undefined => {
    const found = pattern.exec(statement)?.[1];
    return found === undefined ? undefined : Number(found);
  };
  const list = (pattern: RegExp): Set<string> | undefined => {
    const found = pattern.exec(statement)?.[1];
    return found === undefined ? undefined : new Set(found.split(",").map((each) => each.trim()));
  };
  const sinceS = number(/received_at >= toDateTime\((\d+)\)/) ?? 0;
  const day = number(/toRelativeDayNum\(time\) = (\d+)/);
  const hashes = list(/body_hash IN \(([^)]*)\)/);
  const ids = list(/\bid IN \(([^)]*)\)/);
  const hash = /body_hash = (\d+)/.exec(statement)?.[1];
  const org = /org_id = '([^']*)'/.exec(statement)?.[1];
  const host = /host_id = '([^']*)'/.exec(statement)?.[1];
  const found = rows.filter(
    (row) =>
      row.receivedS >= sinceS &&
      (day === undefined || row.day === day) &&
      (hashes === undefined || hashes.has(row.bodyHash)) &&
      (ids === undefined || ids.has(String(row.id))) &&
      (hash === undefined || row.bodyHash === hash) &&
      (org === undefined || row.orgId === org) &&
      (host === undefined || row.hostId === host) &&
      (!statement.includes("body_hash != 0") || row.bodyHash !== "0"),
  );
  if (statement.includes("toStartOfMinute")) {
    const minutes = [...new Set(found.map(({ receivedS }) => receivedS - (receivedS % 60)))].sort((a, b) => b - a);
    return [{ from_s: String(minutes[Math.min(minutes.length, number(/LIMIT (\d+)/) ?? 0) - 1] ?? 0) }];
  }
  return found.map((row) => ({
    org_id: row.orgId,
    host_id: row.hostId,
    body_hash: row.bodyHash,
    day: row.day,
    id: String(row.id),
  }));
}

function rowsOf(columns: NativeColumns, rows: NativeRows): StoredRow[] {
  const streams = streamsByColumn(columns, rows);
  const stream = (name: string): Buffer => {
    const [bytes = new Uint8Array()] = streams.get(name) ?? [];
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
  const text = (name: string): string => stream(name).toString("utf8", 1);
  return Array.from({ length: rows.count }, (_, index) => ({
    orgId: text("org_id"),
    hostId: text("host_id"),
    bodyHash: String(stream("body_hash").readBigUInt64LE()),
    receivedS: stream("received_at").readUInt32LE(),
    day: Number(stream("time").readBigInt64LE(8 * index) / DAY_NS),
    id: stream("id").readBigUInt64LE(8 * index),
  }));
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
