// `npm run bench -- decoding [--rounds 21] [--records 1000]`: OTLP/JSON bodies to rows on one thread, by the kernel and by the TypeScript
// decoder, against JSON.parse of the same bodies. Reach: the kernel ≤ 0.4 of JSON.parse. CPU time, interleaved in one process; the rows of
// both decoders are compared first.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { decodeSlowPath, KERNEL_LIMITS } from "../../backend/ingest/otlp/decode-body.ts";
import { Kernel, KERNEL_FILE } from "../../backend/ingest/otlp/fast-decode.ts";
import { report, shown } from "../fixtures/measure.ts";
import { LOAD_SIGNALS, LoadBody, type LoadSignal } from "../fixtures/otlp-load.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "21" }, records: { type: "string", default: "1000" } } });
const [rounds, records] = [Number(values.rounds), Number(values.records)];
/** Of a round; enough for the clock of the processor. */
const RECORDS_A_TURN = 50_000;
const SIGNALS = { logs: "logs", spans: "traces" } as const;
const CONTEXT = {
  orgId: "org-of-usual-length",
  hostId: "host-of-usual-length",
  node: "",
  firstId: "455000000000000000",
  bodyHash: "42",
  retentionDays: 30,
};

const kernel = new Kernel(readFileSync(KERNEL_FILE));
const table: Record<string, Record<string, string>> = {};
for (const signal of LOAD_SIGNALS) measure(signal);
report("decoding", values, table);

function measure(load: LoadSignal): void {
  const signal = SIGNALS[load];
  const body = Buffer.from(new LoadBody(load, records).next());
  const context = { ...CONTEXT, receivedAtMs: Date.now() };
  const ways = {
    kernel: () => kernel.read(signal, body, context, KERNEL_LIMITS)?.take(context.bodyHash),
    TypeScript: () => decodeSlowPath({ signal, body, context }),
    "JSON.parse": () => JSON.parse(body.toString()) as unknown,
  };
  const [fast, words] = [ways.kernel(), ways.TypeScript()];
  if (
    !fast?.sections.every(({ bytes }, index) => words.sections[index]?.bytes && Buffer.compare(bytes, words.sections[index].bytes) === 0)
  ) {
    throw new Error(`${load}: the kernel does not make the rows of the TypeScript decoder`);
  }
  const turns = Object.entries(ways);
  const costs = new Map<string, number[]>(turns.map(([name]) => [name, []]));
  for (let round = -2; round < rounds; round += 1) {
    for (const [name, way] of round % 2 === 0 ? turns : turns.toReversed()) {
      const cost = cpuUs(way);
      // What was not compiled yet.
      if (round >= 0) costs.get(name)?.push(cost);
    }
  }
  const parse = costs.get("JSON.parse") ?? [];
  for (const [name, own] of costs) {
    const ratios = own.map((cost, round) => cost / (parse[round] ?? Number.NaN));
    table[`${load}, ${name}`] = {
      "CPU µs/record": shown(own, 2),
      "÷ JSON.parse": shown(ratios, 2),
      "bytes/record": String(body.length / records),
    };
  }
}

/** A record, of this process and all its threads. */
function cpuUs(way: () => unknown): number {
  const before = process.cpuUsage();
  const times = Math.ceil(RECORDS_A_TURN / records);
  for (let time = 0; time < times; time += 1) way();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / (times * records);
}
