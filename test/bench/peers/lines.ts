// The results of the benchmark `peers` as named ratios, each with its median, its spread over the rounds, and its target.
import { shown } from "../../fixtures/measure.ts";
import type { Round } from "./turns.ts";

export const OURS = "ours";
export const LOKI = "Loki";
export const BULK = "bulk insert of 10,000 rows";
export const STRAIGHT = "VictoriaMetrics straight";

/** Results for one signal and one number of senders. */
export interface Block {
  readonly signal: "logs" | "spans" | "metrics" | "remote write";
  readonly senders: number;
  /** Rounds by the name of the program. */
  readonly rounds: ReadonlyMap<string, readonly Round[]>;
  /** CPU of JSON.parse, µs a record, of each round; empty where records are no JSON. */
  readonly parseCpuUs: readonly number[];
}

/** Targets by comparison, then by number of senders. */
const REACH: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  [`logs against ${LOKI}`]: { 8: "≥ 2", 64: "≥ 4" },
  [`logs against ${BULK}`]: { 64: "≥ 0.6" },
  [`spans against ${BULK}`]: { 64: "≥ 0.6" },
  [`metrics against ${STRAIGHT}`]: { 8: "≥ 0.85", 64: "≥ 0.85" },
  [`remote write against ${STRAIGHT}`]: { 8: "≥ 0.85", 64: "≥ 0.85" },
  [`logs, ${cpuOverParse()}`]: { 8: "≤ 4.0", 64: "≤ 3.0" },
  [`spans, ${cpuOverParse()}`]: { 8: "≤ 4.5", 64: "≤ 3.5" },
};

function cpuOverParse(): string {
  return "CPU of the backend a record over CPU of JSON.parse of the same record";
}

export function lines(blocks: readonly Block[]): string[] {
  return blocks.flatMap((block) => [...linesOf(block)]);
}

function* linesOf({ signal, senders, rounds, parseCpuUs }: Block): Generator<string> {
  const ours = rounds.get(OURS) ?? [];
  const line = (name: string, ratios: readonly number[]): string => {
    const reach = REACH[name]?.[senders];
    return `${name}, ${senders} senders: ${shown(ratios, 2)}${reach === undefined ? "" : `, reach ${reach}`}`;
  };
  for (const [name, theirs] of rounds) {
    if (name === OURS) continue;
    yield line(`${signal} against ${name}`, over(ours, theirs, "recordsPerSecond"));
    yield line(`${signal}, CPU a record against ${name}`, over(ours, theirs, "cpuUs"));
    yield line(`${signal}, CPU a record until quiet against ${name}`, over(ours, theirs, "wholeCpuUs"));
  }
  if (parseCpuUs.length > 0) {
    const ratios = ours.map(({ cpuUs }, round) => cpuUs / (parseCpuUs[round] ?? Number.NaN));
    yield line(`${signal}, ${cpuOverParse()}`, ratios);
  }
}

/** The ratio of each round, from two measurements that were made one after the other. */
function over(ours: readonly Round[], theirs: readonly Round[], figure: keyof Round): number[] {
  return ours.map((round, index) => round[figure] / (theirs[index]?.[figure] ?? Number.NaN));
}

/** Rows of a table: each way of each block. */
export function rowsOf(blocks: readonly Block[]): Record<string, Record<string, string>> {
  const rows = blocks.flatMap(({ signal, senders, rounds, parseCpuUs }) => [
    ...[...rounds].map(([name, own]) => [`${signal}, ${senders} senders, ${name}`, row(own)] as const),
    ...(parseCpuUs.length > 0 ? [[`${signal}, ${senders} senders, JSON.parse`, { "CPU µs/record": shown(parseCpuUs, 2) }] as const] : []),
  ]);
  return Object.fromEntries(rows);
}

function row(rounds: readonly Round[]): Record<string, string> {
  const of = (figure: keyof Round, digits = 0): string => {
    const found = rounds.map((round) => round[figure]).filter(Number.isFinite);
    return found.length > 0 ? shown(found, digits) : "";
  };
  return {
    "records/s": of("recordsPerSecond"),
    "CPU µs/record": of("cpuUs", 1),
    "until quiet": of("wholeCpuUs", 1),
    "senders' CPU": of("sendersCpuUs", 2),
    "p50 ms": of("p50Ms"),
    "p99 ms": of("p99Ms"),
    "resident MB": of("residentMb"),
  };
}
