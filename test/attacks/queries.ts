// Attacks with a viewer's queries: large responses, slow conditions, PromQL that computes for minutes without reading data.
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Attack, Attacker } from "./attack.ts";

const zipped = promisify(gzip);
const LOGS = "/ingest/logs/otlp";
const LABELS = 100;
const UNREAD_MS = 60_000;
const UNREAD_EVERY = 20;

export async function store(attacker: Attacker, resource: string, records: string): Promise<void> {
  const text = `{"resourceLogs":[{"resource":{"attributes":[${resource}]},"scopeLogs":[{"logRecords":[${records}]}]}]}`;
  const body = await zipped(Buffer.from(text), { level: 1 });
  await attacker.call({ method: "POST", path: LOGS, key: attacker.target.apiKey, body, headers: { "content-encoding": "gzip" } });
}

export const attribute = (key: string, value: string): string => `{"key":"${key}","value":{"stringValue":"${value}"}}`;
export const record = (index: number, message: string): string =>
  `{"timeUnixNano":"${Date.now()}${String(index).padStart(6, "0")}","body":{"stringValue":"${message}"}}`;
export const hoursAgo = (hours: number): string => new Date(Date.now() - hours * 3_600_000).toISOString();

async function storeLarge(attacker: Attacker): Promise<void> {
  const text = "x".repeat(500_000);
  for (let body = 0; body < 10; body += 1) {
    const records = Array.from({ length: 50 }, (_, index) => record(index, `${attacker.serial()} ${text}`));
    await store(attacker, attribute("service.name", "large"), records.join(","));
  }
}

export const largeAnswers: Attack = {
  group: "first",
  what: "six log queries at once over 500 records of 500 kB; three more that never read their answer",
  everyMs: 3000,
  prepare: storeLarge,
  async wave(attacker, turn) {
    const bearer = attacker.target.viewerToken;
    const path = `/query/logs?limit=500&source=large&start=${hoursAgo(3)}`;
    const unread = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${bearer}\r\n\r\n`;
    // They continue during the waves.
    if (turn % UNREAD_EVERY === 0) void attacker.many(3, 3, () => attacker.hold([unread], UNREAD_MS, { read: false }));
    await attacker.many(6, 6, () => attacker.call({ method: "GET", path, bearer }));
  },
};

export const slowLogQueries: Attack = {
  group: "first",
  what: "log queries with 100 conditions over 360,000 rows: twelve waited for, 24 left after a second",
  everyMs: 5000,
  async prepare(attacker) {
    const labels = Array.from({ length: LABELS }, (_, index) => attribute(`l${index}`, `v${index}`)).join(",");
    for (let body = 0; body < 36; body += 1) {
      const records = Array.from({ length: 10_000 }, (_, index) => record(index, attacker.serial()));
      await store(attacker, `${attribute("service.name", "slow")},${labels}`, records.join(","));
    }
  },
  async wave(attacker) {
    const bearer = attacker.target.viewerToken;
    // All but the last hold for every row.
    const conditions = Array.from({ length: LABELS }, (_, index) => `label.l${index}=v${index === LABELS - 1 ? "none" : index}`);
    const path = (): string => `/query/logs?limit=500&start=${hoursAgo(3)}&${conditions.join("&")}&q=${attacker.serial()}`;
    await Promise.all([
      attacker.many(12, 12, () => attacker.call({ method: "GET", path: path(), bearer })),
      attacker.many(24, 24, () => attacker.call({ method: "GET", path: path(), bearer, leaveAfterMs: 1000 })),
    ]);
  },
};

export const costlyPromql: Attack = {
  group: "first",
  what: "six at once: count(mode_over_time((rand(1)+rand(2))[6h:1s])) over six hours by the second, which needs no data",
  everyMs: 1000,
  async wave(attacker) {
    const end = Math.floor(Date.now() / 1000);
    const parameters = new URLSearchParams({
      query: "count(mode_over_time((rand(1)+rand(2))[6h:1s]))",
      start: String(end - 6 * 3600),
      end: String(end),
      step: "1",
      timeout: "30s",
    });
    const path = `/query/prometheus/api/v1/query_range?${parameters.toString()}`;
    await attacker.many(6, 6, () => attacker.call({ method: "GET", path, bearer: attacker.target.viewerToken }));
  },
};
