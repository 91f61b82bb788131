// Answers the statements of LogQL queries from memory, without ClickHouse: every condition is true, so that each stage sees the records.
import type { Ask, ClickHouse } from "../../../backend/engines/clickhouse/clickhouse-client.ts";
import { TooLargeError } from "../../../backend/errors.ts";
import type { Choices, HostileRecord } from "../programs.ts";

const START_MS = Date.parse("2026-11-24T00:00:00Z");
export const SPAN = { start: String(START_MS / 1000), end: String(START_MS / 1000 + 3600) };
export const SPAN_NS = { start: BigInt(START_MS) * 1_000_000n, end: BigInt(START_MS + 3_600_000) * 1_000_000n };
export const NOW_NS = BigInt(START_MS + 3_600_000) * 1_000_000n;

/** What one program reads. */
export interface Stored {
  readonly records: readonly StoredRecord[];
  /** Rows of GROUP BY, as JSON lines. */
  readonly cells: Buffer;
}

export interface StoredRecord {
  readonly id: string;
  readonly position: string;
  readonly row: Buffer;
  /** A row in the form that a tail reads. */
  readonly tailRow: string;
}

export function storeRecord({ message, attributes }: HostileRecord, index: number): StoredRecord {
  const ns = String(BigInt(START_MS + 1000 + index * 1000) * 1_000_000n);
  const id = String(1_000_000 + index);
  const common = { level: "info", source: "hostile", host_id: "host", node: "node", trace_id: "", span_id: "", severity_number: 9 };
  const row = { time_ns: ns, id, ns, ...common, scope_name: "", labels: attributes, line: message, row_id: id };
  const position = { time_ns: ns, id, bytes: String(message.length) };
  const timestamp = new Date(START_MS + index * 1000).toISOString().replace("Z", "000000Z");
  return {
    id,
    position: `${JSON.stringify(position)}\n`,
    row: Buffer.from(`${JSON.stringify(row)}\n`),
    tailRow: JSON.stringify({ timestamp, ...common, scope: "", labels: attributes, message }),
  };
}

/** Cells of as many series, each at random moments below `moments`. */
export function storeCells(choices: Choices, count: number, moments: number): Buffer {
  const odd = choices.chance(0.2);
  const below = (limit: number): number => Math.floor(choices.next() * limit);
  const lines = Array.from({ length: count }, (_, index) => {
    const first = below(moments);
    const last = first + below(moments - first);
    const labels_text = JSON.stringify({ id: String(index), wide: "w".repeat(index % 100) });
    const k = Array.from({ length: 20 }, (__, label) => `${index}-${label}`);
    const columns = { level: "info", source: "hostile", host_id: "", node: "", labels_text };
    return JSON.stringify({ first, last, ...columns, k, n: 1 + index, value: index / 3, squares: 1, odd: odd ? 1 : 0 });
  });
  return Buffer.from(lines.map((line) => `${line}\n`).join(""));
}

/** `storedFor`: what the program of this organisation reads. */
export function memoryEngine(storedFor: (orgId: string) => Stored): Pick<ClickHouse, "read"> {
  return {
    read: async (orgId, _options, work) => {
      const stored = storedFor(orgId);
      const ask: Ask = async ({ text }, maxResultBytes = Number.POSITIVE_INFINITY) => {
        const rows = answer(text, stored);
        if (rows.length > maxResultBytes) throw new TooLargeError(undefined);
        return rows;
      };
      return await work(ask, new AbortController().signal);
    },
  };
}

const KEYS = ["a", "digits", "wide", "id"];
const LABELS_OF_STREAM = { "k8s.pod.name": "p".repeat(1000), "k8s.container.name": "\u{1F600}" };

/** By a part of the statement, in this order: what the statements about labels, streams and amounts answer. */
const ANSWERS: readonly (readonly [part: string, rows: readonly object[]])[] = [
  ["AS keys FROM logs", [{ keys: KEYS }]],
  ["arrayJoin(mapKeys(labels)) AS key", KEYS.map((key) => ({ key }))],
  ["DISTINCT toString(arrayJoin(mapKeys(labels)))", [{ key: "k8s.pod.name" }]],
  ["SELECT 1 AS one", [{ one: 1 }]],
  ["AS own,", [{ own: ["hostile", "info", "host", ""], attributes: LABELS_OF_STREAM, entries: 3, bytes: 300 }]],
  ["AS streams,", [{ streams: 1, entries: 3, bytes: 300 }]],
  [
    "AS steps FROM",
    [
      {
        k: ["", "hostile"],
        bytes: 300,
        steps: [
          [0, 1],
          [200, 100],
        ],
      },
    ],
  ],
  ["AS value FROM", [{ value: "hostile" }]],
  ["SELECT toFloat64(sum(n)) AS n FROM", [{ n: 300 }]],
  [
    "SELECT pattern, any(example) AS example",
    Array.from({ length: 300 }, (_, index) => ({
      pattern: `<_> ${"word ".repeat(40)}${index} <_>`,
      example: "x".repeat(1000),
      total: 300 - index,
      cells: [[0, 300 - index]],
    })),
  ],
];

function answer(statement: string, { records, cells }: Stored): Buffer {
  if (statement.includes("toFloat64(count()) AS n,")) return cells;
  if (statement.startsWith("SELECT toUnixTimestamp64Nano(time) AS time_ns")) return page(statement, records);
  const found = ANSWERS.find(([part]) => statement.includes(part));
  if (!found) throw new Error(`memory-engine.ts does not know the statement: ${statement}`);
  return Buffer.from(found[1].map((row) => `${JSON.stringify(row)}\n`).join(""));
}

function page(statement: string, records: Stored["records"]): Buffer {
  const limit = Number(/LIMIT (\d+)\s*$/.exec(statement)?.[1]);
  // A next page, or the rows of positions that were read before.
  const isNamed = statement.includes("(time, id) IN");
  const after = / OR id [<>] (\d+)/.exec(statement)?.[1];
  const oldestFirst = / ASC\s+LIMIT|ASC, id ASC/.test(statement);
  const ordered = oldestFirst ? records : records.toReversed();
  const from = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  const found = ordered.slice(from).filter(({ id }) => !isNamed || statement.includes(`, ${id})`));
  const rows = found.slice(0, limit);
  if (statement.includes("byteSize(")) return Buffer.from(rows.map(({ position }) => position).join(""));
  return Buffer.concat(rows.map(({ row }) => row));
}
