// Memory of a real backend in the worst cases that clients can cause: waves of the largest bodies, senders that send slowly, and
// unauthenticated connections that never finish their headers. Resident memory and responses stay within their limits; the test prints the
// peaks.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { sign } from "../../common/protocol/signature.ts";
import { residentMib } from "../fixtures/process-state.ts";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { signedPost, signedPostUntilAnswered } from "../fixtures/processes.ts";
import { nameOf } from "../fixtures/senders.ts";

const MIB = 1024 * 1024;
const BUDGET_MIB = 128;
const SENDERS = 64;
const SLOW = 500;

const backend = backendOfFile({ INGEST_MEMORY_MIB: String(BUDGET_MIB) });
const resident = (field: "VmRSS" | "VmHWM"): number => residentMib(backend.pid, field);
let tenants: Tenant[];
let restMib: number;

beforeAll(async () => {
  tenants = await Promise.all(["one", "two"].map((name) => backend.tenant(name)));
  await backend.loadLogs(tenants[0] as Tenant);
  restMib = resident("VmRSS");
});

async function heldBytes(): Promise<number> {
  const text = await (await fetch(`${backend.healthUrl}/metrics`)).text();
  return Number(/^atherops_ingest_held_bytes (\d+)$/m.exec(text)?.[1]);
}

/** `part` repeated to nearly 32 MiB. */
const largest = (part: string, separator = ""): string =>
  Array.from({ length: Math.floor((32 * MIB - 200) / (part.length + separator.length)) }, () => part).join(separator);

/** Each wave has other bytes, so that none is a known body. */
const BODIES = {
  metrics: (nowMs: number) => largest(`largest{path="/api/v1/things",pod="thing-0-abcde",instance="10.0.0.1:8080"} 1 ${nowMs}\n`),
  "logs/otlp": (nowMs: number) => {
    const record = { timeUnixNano: `${nowMs}000000`, severityText: "INFO", body: { stringValue: "x".repeat(900) } };
    return `{"resourceLogs":[{"resource":{"attributes":[]},"scopeLogs":[{"logRecords":[${largest(JSON.stringify(record), ",")}]}]}]}`;
  },
  traces: (nowMs: number) => {
    const time = `${nowMs}000000`;
    const attributes = [{ key: "text", value: { stringValue: "y".repeat(300) } }];
    const span = { traceId: "a".repeat(32), spanId: "b".repeat(16), name: "x", startTimeUnixNano: time, endTimeUnixNano: time, attributes };
    return `{"resourceSpans":[{"scopeSpans":[{"spans":[${largest(JSON.stringify(span), ",")}]}]}]}`;
  },
} as const;
type Signal = keyof typeof BODIES;

/** Above the budget: two bodies being decoded and inserted, and what the engine in the process and the allocator keep. */
test.each<[signals: Signal[], allowanceMib: number]>([
  [["metrics", "logs/otlp"], 700],
  // 970 was the most seen.
  [["traces"], 1300],
  [["traces"], 1300],
])(
  `${SENDERS} of the largest bodies of %s at once are stored or to be retried, within the budget and %i MiB`,
  async (signals, allowanceMib) => {
    const kinds = signals.flatMap((signal): { path: string; body: Buffer; headers: Record<string, string> }[] => {
      const path = signal === "metrics" ? "/ingest" : `/ingest/${signal}`;
      const body = Buffer.from(BODIES[signal](Date.now()));
      return [
        { path, body, headers: {} },
        { path, body: gzipSync(body, { level: 1 }), headers: { "content-encoding": "gzip" } },
      ];
    });
    const answers = await Promise.all(
      Array.from({ length: SENDERS }, (_, index) => {
        const { path, body, headers } = kinds[index % kinds.length] as (typeof kinds)[0];
        const { apiKey } = tenants[(index >> 2) % 2] as Tenant;
        return signedPostUntilAnswered(backend.apiUrl, path, apiKey, body, headers);
      }),
    );
    const names = Object.groupBy(answers.map(nameOf), (name) => name);
    console.log(
      `${signals.join(", ")}: ${Object.entries(names)
        .map(([name, of]) => `${of?.length} × ${name}`)
        .join(", ")}; resident ${restMib} MiB at rest, peak ${resident("VmHWM")} MiB`,
    );
    // 429: the memory of the slowest body was taken back for another sender.
    const retried = ["503 unavailable, again after 1 s", "429 over_quota, again after 5 s"];
    expect(Object.keys(names).filter((name) => !retried.includes(name))).toEqual(["204"]);
    expect(resident("VmHWM") - restMib).toBeLessThan(BUDGET_MIB + allowanceMib);
    expect(await heldBytes()).toBe(0);
  },
);

/** A connection that sends a byte each second, and what it has received. */
async function openSlow(head: string): Promise<{ socket: Socket; answer: () => string }> {
  const { hostname, port } = new URL(backend.apiUrl);
  const socket = connect(Number(port), hostname).on("error", () => undefined);
  let received = "";
  socket.setEncoding("utf8").on("data", (text: string) => (received += text));
  await once(socket, "connect");
  socket.write(head);
  return { socket, answer: () => received };
}

test(`${SLOW} senders of a byte of a body a second are ended, and as many of a header cost little; others are served`, async () => {
  const before = resident("VmRSS");
  const [slow, other] = tenants as [Tenant, Tenant];
  const signature = Object.entries(sign(slow.apiKey, "POST", "/ingest", Date.now() / 1000)).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = "POST /ingest HTTP/1.1\r\nHost: x\r\n";
  const open = (text: string) => Promise.all(Array.from({ length: SLOW }, () => openSlow(head + text)));
  const bodies = await open(`${signature.join("")}Content-Length: ${32 * MIB}\r\n\r\n`);
  const headers = await open("X-Slow: ");
  const closed = Promise.all(bodies.map(({ socket }) => once(socket, "close"))).then(() => true);
  const dripping = setInterval(() => {
    for (const { socket } of [...bodies, ...headers]) if (!socket.destroyed) socket.write("x");
  }, 1000);
  const startedAt = Date.now();
  let [slowestMs, peakMib] = [0, 0];
  // Another tenant sends four times a second meanwhile.
  while (!(await Promise.race([closed, sleep(250, false)]))) {
    const sentAt = Date.now();
    expect((await signedPost(backend.apiUrl, "/ingest", other.apiKey, "meanwhile 1\n")).status).toBe(204);
    slowestMs = Math.max(slowestMs, Date.now() - sentAt);
    peakMib = Math.max(peakMib, resident("VmRSS"));
  }
  clearInterval(dripping);
  for (const { socket } of headers) socket.destroy();
  const took = Math.round((Date.now() - startedAt) / 1000);
  console.log(
    `${SLOW} slow senders ended after ${took} s; others waited ${slowestMs} ms at most; resident ${before} MiB before, ${peakMib} MiB peak`,
  );
  expect(bodies.filter(({ answer }) => answer().startsWith("HTTP/1.1 503"))).toHaveLength(SLOW);
  expect(peakMib - before).toBeLessThan(300);
  expect(slowestMs).toBeLessThan(5000);
  expect(took).toBeLessThan(60);
  expect(await heldBytes()).toBe(0);
});
