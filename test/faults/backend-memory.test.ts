// Memory of a real backend under repeated worst cases: waves of the largest trace bodies, and unauthenticated connections that never finish
// their headers. (One wave of every kind, and slow bodies: memory.test.ts.)
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { residentMib } from "../fixtures/process-state.ts";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { signedPost, signedPostUntilAnswered } from "../fixtures/processes.ts";
import { nameOf } from "../fixtures/senders.ts";

const MIB = 1024 * 1024;
const BUDGET_MIB = 128;
/** Two bodies being decoded and inserted, and what the engine in the process and the allocator keep; 970 was the most seen. */
const ALLOWANCE_MIB = 1300;
const WAVES = 3;
const SLOW = 500;

const backend = backendOfFile({ INGEST_MEMORY_MIB: String(BUDGET_MIB) });
let tenants: Tenant[];

beforeAll(async () => {
  tenants = await Promise.all(["one", "two"].map((name) => backend.tenant(name)));
  await backend.loadLogs(tenants[0] as Tenant);
});

const resident = (field: "VmRSS" | "VmHWM"): number => residentMib(backend.pid, field);

/** Whole spans of nearly 32 MiB; each wave has other bytes, so that none is a known body. */
function largestSpans(wave: number): Buffer {
  const time = `${Date.now()}00000${wave}`;
  const attributes = [{ key: "text", value: { stringValue: "y".repeat(300) } }];
  const span = { traceId: "a".repeat(32), spanId: "b".repeat(16), name: "x", startTimeUnixNano: time, endTimeUnixNano: time, attributes };
  const text = JSON.stringify(span);
  const spans = Array.from({ length: Math.floor((32 * MIB - 200) / (text.length + 1)) }, () => text).join(",");
  return Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[${spans}]}]}]}`);
}

test(`${WAVES} waves of 64 of the largest trace bodies are stored or retried, and memory is limited`, async () => {
  const before = resident("VmRSS");
  const peaks: number[] = [];
  for (let wave = 0; wave < WAVES; wave += 1) {
    const plain = largestSpans(wave);
    const compressed = gzipSync(plain, { level: 1 });
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, index) => {
        const { apiKey } = tenants[index % 2] as Tenant;
        return index % 4 < 2
          ? signedPostUntilAnswered(backend.apiUrl, "/ingest/traces", apiKey, plain)
          : signedPostUntilAnswered(backend.apiUrl, "/ingest/traces", apiKey, compressed, { "content-encoding": "gzip" });
      }),
    );
    const names = Object.groupBy(answers.map(nameOf), (name) => name);
    // 429: the memory of the slowest body was taken back for another sender.
    const retried = ["503 unavailable, again after 1 s", "429 over_quota, again after 5 s"];
    expect(Object.keys(names).filter((name) => !retried.includes(name))).toEqual(["204"]);
    peaks.push(resident("VmHWM"));
    console.log(`wave ${wave + 1}: ${names["204"]?.length} stored, the rest to be retried; peak ${peaks.at(-1)} MiB, ${before} before all`);
  }
  for (const peak of peaks) expect(peak - before).toBeLessThan(BUDGET_MIB + ALLOWANCE_MIB);
});

test(`${SLOW} connections that send a header byte per second cost little, and others are served`, async () => {
  const before = resident("VmRSS");
  const { hostname, port } = new URL(backend.apiUrl);
  const sockets = await Promise.all(
    Array.from({ length: SLOW }, async () => {
      const socket = connect(Number(port), hostname).on("error", () => undefined);
      await once(socket, "connect");
      socket.write("POST /ingest HTTP/1.1\r\nHost: x\r\nX-Slow: ");
      return socket;
    }),
  );
  let peak = 0;
  let slowestMs = 0;
  for (let second = 0; second < 10; second += 1) {
    for (const socket of sockets) socket.write("x");
    const startedAt = Date.now();
    expect((await signedPost(backend.apiUrl, "/ingest", (tenants[0] as Tenant).apiKey, "meanwhile 1\n")).status).toBe(204);
    slowestMs = Math.max(slowestMs, Date.now() - startedAt);
    peak = Math.max(peak, resident("VmRSS"));
    // Slow senders: one byte a second.
    await sleep(1000);
  }
  for (const socket of sockets) socket.destroy();
  console.log(`${SLOW} slow connections: others waited ${slowestMs} ms at most; resident ${before} MiB before, ${peak} MiB peak`);
  expect(peak - before).toBeLessThan(150);
});
