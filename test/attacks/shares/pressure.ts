// What an organisation sends to use as much of one shared resource as it may: slots of LogQL, log reads and PromQL, memory for responses
// and for request bodies. Each kind keeps a fixed number of requests or connections open, and begins a new one when one ends.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { request } from "undici";
import { sign } from "../../../common/protocol/signature.ts";
import type { Tenant } from "../../fixtures/backend-process.ts";
import { attribute, record } from "../queries.ts";
import { type Busy, keepCalling, type Pressure } from "./busy.ts";
import { MORE_PRESSURES } from "./more-pressures.ts";

/** The settings of the backend that the pressures assume. */
export const SETTINGS = { INGEST_MEMORY_MIB: "64", JWT_TTL: "2h" };

const zipped = promisify(gzip);
const LOKI = "/query/loki/loki/api/v1";
const LOGS = "/ingest/logs/otlp";
const MESSAGE_BYTES = 5000;
const MIB = 1024 * 1024;
/** RE2 cannot match this with few states. */
const COSTLIEST = "a.{48}z";
/** Takes 5 s of CPU time, then LogQL's own limit ends it. */
const REPLACED = `{service_name="computed"} | line_format \`{{ repeat 1048576 "a"${' | replace "a" "b"'.repeat(100)} }}\``;

/** Stores what the pressures read: 10 MB for a regular expression, 16 MB for a page, 60 records for templates. */
export async function prepare(apiUrl: string, { apiKey }: Tenant): Promise<void> {
  const states = (): string =>
    Array.from(randomBytes(MESSAGE_BYTES / 8), (byte) => byte.toString(2).padStart(8, "0"))
      .join("")
      .replaceAll("0", "a")
      .replaceAll("1", "b");
  const large = "x".repeat(330_000);
  const bodies = [
    ["states", Array.from({ length: 2000 }, (_, index) => record(index, states()))],
    ["large", Array.from({ length: 50 }, (_, index) => record(index, large))],
    ["computed", Array.from({ length: 60 }, (_, index) => record(index, `${index}`))],
  ] as const;
  for (const [service, records] of bodies) {
    const resource = attribute("service.name", service);
    const text = `{"resourceLogs":[{"resource":{"attributes":[${resource}]},"scopeLogs":[{"logRecords":[${records.join(",")}]}]}]}`;
    const body = await zipped(Buffer.from(text), { level: 1 });
    const headers = { ...sign(apiKey, "POST", LOGS, Date.now() / 1000), "content-encoding": "gzip" };
    const answer = await request(apiUrl + LOGS, { method: "POST", headers, body });
    if (answer.statusCode !== 204) throw new Error(`${service}: ${answer.statusCode} ${await answer.body.text()}`);
    await answer.body.dump();
  }
}

const hourAgo = (): string => new Date(Date.now() - 3_600_000).toISOString();
const pagePath = (): string => `/query/logs?limit=500&source=large&start=${hourAgo()}`;

export const PRESSURES = {
  sandbox: {
    what: "4 LogQL queries at once that each compute for 5 s",
    run: (busy) => keepAsking(busy, 4, () => `${LOKI}/query_range?${new URLSearchParams({ query: REPLACED, limit: "100" }).toString()}`),
  },
  "log reads": {
    what: "6 log queries at once with the costliest regular expression",
    run: (busy) => keepAsking(busy, 6, () => `/query/logs?source=states&start=${hourAgo()}&regex=${encodeURIComponent(COSTLIEST)}`),
  },
  PromQL: {
    what: "6 range queries at once that compute 8 million values",
    run: (busy) => keepAsking(busy, 6, costlyPromql),
  },
  responses: {
    what: "10 connections that take pages of 16 MB at 20 kB/s",
    run: (busy) => keepOpen(busy, 10, readSlowly),
  },
  bodies: {
    what: "bodies that declare 32 MiB, send 1.1 MB and then 20 kB/s, 128 of all organisations together",
    run: (busy) => keepOpen(busy, Math.ceil(128 / busy.others), sendSlowly),
  },
  ...MORE_PRESSURES,
} satisfies Record<string, Pressure>;

export type PressureName = keyof typeof PRESSURES;

function costlyPromql(): string {
  const end = Math.floor(Date.now() / 1000);
  const query = "count(mode_over_time((rand(1)+rand(2))[6h:1s]))";
  const parameters = { query, start: String(end - 6 * 3600), end: String(end), step: "60", timeout: "30s" };
  return `/query/prometheus/api/v1/query_range?${new URLSearchParams(parameters).toString()}`;
}

/** `atOnce` queries at all times. */
async function keepAsking(busy: Busy, atOnce: number, pathOf: () => string): Promise<void> {
  await keepCalling(busy, atOnce, () => ({ path: pathOf() }));
}

const STEP_MS = 500;
const STEP_BYTES = 10_000;

type Socket = ReturnType<typeof connect>;

async function keepOpen(busy: Busy, atOnce: number, use: (busy: Busy, socket: Socket) => Promise<void>): Promise<void> {
  const { port, hostname } = new URL(busy.apiUrl);
  const one = async (): Promise<void> => {
    while (!busy.over.aborted) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => undefined);
      const closed = once(socket, "close").catch(() => undefined);
      await Promise.race([closed, use(busy, socket).catch(() => undefined)]);
      if (!busy.over.aborted) busy.count(socket.destroyed ? "cut off" : "answered");
      socket.destroy();
      await sleep(1000, undefined, { signal: busy.over }).catch(() => undefined);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

/** Takes a few bytes at a time, so that no limit of a stalled reader applies. */
async function readSlowly({ tenant, over }: Busy, socket: Socket): Promise<void> {
  socket.write(`GET ${pagePath()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tenant.token}\r\n\r\n`);
  while (!socket.destroyed) {
    await sleep(STEP_MS, undefined, { signal: over });
    socket.read(STEP_BYTES);
  }
}

async function sendSlowly({ tenant, over, count }: Busy, socket: Socket): Promise<void> {
  const signed = Object.entries(sign(tenant.apiKey, "POST", LOGS, Date.now() / 1000)).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${LOGS} HTTP/1.1\r\nHost: x\r\nContent-Length: ${32 * MIB}\r\n${signed.join("")}\r\n`);
  socket.write(Buffer.alloc(1.1 * MIB, " "));
  const answered = once(socket, "data").then(([chunk]) => count(String(chunk).slice(9, 12)));
  const send = async (): Promise<void> => {
    while (!socket.destroyed) {
      await sleep(STEP_MS, undefined, { signal: over });
      if (socket.writableLength < STEP_BYTES) socket.write(Buffer.alloc(STEP_BYTES, " "));
    }
  };
  await Promise.race([answered, send()]);
}
