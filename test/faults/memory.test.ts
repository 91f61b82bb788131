// Memory of a real backend in the worst case that clients with a key can cause: many of the largest bodies at once, and many senders that
// send slowly. Resident memory and responses stay within their limits; the test prints the peaks.
import { setTimeout as sleep } from "node:timers/promises";
import { once } from "node:events";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { sign } from "../../common/protocol/signature.ts";
import { residentMib } from "../fixtures/process-state.ts";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { signedPost, signedPostUntilAnswered } from "../fixtures/processes.ts";

const MIB = 1024 * 1024;
const BUDGET_MIB = 256;
/** Above the budget: two documents of 32 MiB as objects on the decoder's threads, and what the allocator keeps of bodies that are gone. */
const ALLOWANCE_MIB = 700;

const backend = backendOfFile({ INGEST_MEMORY_MIB: String(BUDGET_MIB) });
let tenants: Tenant[];

beforeAll(async () => {
  tenants = await Promise.all(["one", "two"].map((name) => backend.tenant(name)));
  await backend.loadLogs(tenants[0] as Tenant);
});
const resident = (field: "VmRSS" | "VmHWM"): number => residentMib(backend.pid, field);

async function ownMetric(name: string): Promise<number> {
  const text = await (await fetch(`${backend.healthUrl}/metrics`)).text();
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.split(" ")[1],
  );
}

/** Whole lines of nearly 32 MiB. */
function largestMetrics(): Buffer {
  const line = `largest{path="/api/v1/things",pod="thing-0-abcde",instance="10.0.0.1:8080"} 1 ${Date.now()}\n`;
  return Buffer.from(line.repeat(Math.floor((32 * MIB) / line.length)));
}

function largestLogs(): Buffer {
  const record = { timeUnixNano: `${Date.now()}000000`, severityText: "INFO", body: { stringValue: "x".repeat(900) } };
  const text = JSON.stringify(record);
  const logRecords = Array.from({ length: Math.floor((32 * MIB - 200) / (text.length + 1)) }, () => text).join(",");
  return Buffer.from(`{"resourceLogs":[{"resource":{"attributes":[]},"scopeLogs":[{"logRecords":[${logRecords}]}]}]}`);
}

test("stores or delays each of 64 concurrent bodies of the largest size, within the memory budget and an allowance", async () => {
  const metrics = largestMetrics();
  const logs = largestLogs();
  const kinds: { path: string; body: Buffer; headers: Record<string, string> }[] = [
    { path: "/ingest", body: metrics, headers: {} },
    { path: "/ingest/logs/otlp", body: logs, headers: {} },
    { path: "/ingest", body: gzipSync(metrics, { level: 1 }), headers: { "content-encoding": "gzip" } },
    { path: "/ingest/logs/otlp", body: gzipSync(logs, { level: 1 }), headers: { "content-encoding": "gzip" } },
  ];
  const before = resident("VmRSS");
  const answers = await Promise.all(
    Array.from({ length: 64 }, async (_, index) => {
      const { path, body, headers } = kinds[index % kinds.length] as (typeof kinds)[0];
      const tenant = tenants[index % tenants.length] as Tenant;
      return signedPostUntilAnswered(backend.apiUrl, path, tenant.apiKey, body, headers);
    }),
  );
  const counts = Object.groupBy(answers, ({ status }) => String(status));
  console.log(
    `64 bodies of 32 MiB: ${Object.entries(counts)
      .map(([status, of]) => `${of?.length} × ${status}`)
      .join(", ")}; resident ${before} MiB before, peak ${resident("VmHWM")} MiB, ${resident("VmRSS")} MiB after`,
  );
  // 429: the memory of a slow body was taken back for another sender.
  const accepted = ["204 null", "503 1", "429 5"];
  for (const { status, headers } of answers) expect(accepted).toContain(`${status} ${headers.get("retry-after")}`);
  expect(counts["204"]?.length).toBeGreaterThan(0);
  expect(resident("VmHWM") - before).toBeLessThan(BUDGET_MIB + ALLOWANCE_MIB);
  expect(await ownMetric("atherops_ingest_held_bytes")).toBe(0);
});

test("serves others next to 500 senders of a byte a second, within the memory limit, and ends the slow ones", async () => {
  const before = resident("VmRSS");
  const { apiKey } = tenants[0] as Tenant;
  const { hostname, port } = new URL(backend.apiUrl);
  const headers = Object.entries(sign(apiKey, "POST", "/ingest", Date.now() / 1000)).map(([name, value]) => `${name}: ${value}\r\n`);
  const answers: string[] = [];
  const sockets = await Promise.all(
    Array.from({ length: 500 }, async (_, index) => {
      const socket = connect(Number(port), hostname);
      socket.setEncoding("utf8").on("data", (text: string) => (answers[index] = (answers[index] ?? "") + text));
      socket.on("error", () => undefined);
      await once(socket, "connect");
      socket.write(`POST /ingest HTTP/1.1\r\nHost: x\r\n${headers.join("")}Content-Length: ${32 * MIB}\r\n\r\n`);
      return socket;
    }),
  );
  const closed = sockets.map((socket) => once(socket, "close"));
  const dripping = setInterval(() => {
    for (const socket of sockets) if (!socket.destroyed) socket.write("x");
  }, 1000);
  const startedAt = Date.now();
  let slowest = 0;
  let peak = 0;
  const allClosed = Promise.all(closed).then(() => true);
  // Another tenant sends four times a second meanwhile.
  while (!(await Promise.race([allClosed, sleep(250, false)]))) {
    const sentAt = Date.now();
    const answer = await signedPost(backend.apiUrl, "/ingest", (tenants[1] as Tenant).apiKey, "meanwhile 1\n");
    expect(answer.status).toBe(204);
    slowest = Math.max(slowest, Date.now() - sentAt);
    peak = Math.max(peak, resident("VmRSS"));
  }
  clearInterval(dripping);
  const took = Math.round((Date.now() - startedAt) / 1000);
  console.log(
    `500 slow senders: ended after ${took} s; others waited ${slowest} ms at most; resident ${before} MiB before, ${peak} MiB peak`,
  );
  expect(answers.filter((text) => text.startsWith("HTTP/1.1 503"))).toHaveLength(500);
  expect(peak - before).toBeLessThan(150);
  expect(slowest).toBeLessThan(5000);
  expect(took).toBeLessThan(60);
  expect(await ownMetric("atherops_ingest_held_bytes")).toBe(0);
});
