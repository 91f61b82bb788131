// Attacks with expensive queries: a regular expression over the whole retention, a label with a million values, tails that no client reads.
import { randomBytes } from "node:crypto";
import type { Attack } from "./attack.ts";
import { attribute, hoursAgo, record, store } from "./queries.ts";

const RETENTION_HOURS = 30 * 24;
/** RE2 cannot match this with few states, so each byte costs the maximum number of steps. */
const COSTLIEST = "a.{48}z";
const MESSAGE_BYTES = 5000;
const TAILS = 16;
const UNREAD_MS = 60_000;

/** An expression with as many states as bytes. */
function aAndB(bytes: number): string {
  return Array.from(randomBytes(Math.ceil(bytes / 8)), (byte) => byte.toString(2).padStart(8, "0"))
    .join("")
    .replaceAll("0", "a")
    .replaceAll("1", "b");
}

export const wholeRetentionRegex: Attack = {
  group: "more",
  what: "the costliest regular expression over 100 MB of messages and the whole retention: rows, histogram and fields, twelve at once",
  everyMs: 5000,
  async prepare(attacker) {
    for (let body = 0; body < 10; body += 1) {
      const records = Array.from({ length: 2000 }, (_, index) => record(index, aAndB(MESSAGE_BYTES)));
      await store(attacker, attribute("service.name", "regex"), records.join(","));
    }
  },
  async wave(attacker) {
    const bearer = attacker.target.viewerToken;
    const question = `start=${hoursAgo(RETENTION_HOURS)}&source=regex&regex=${encodeURIComponent(COSTLIEST)}`;
    const paths = [
      `/query/logs?${question}`,
      `/query/logs/histogram?${question}`,
      `/query/logs/fields?${question}`,
      `/query/logs/patterns?${question}`,
    ];
    await attacker.many(12, 12, (index) => attacker.call({ method: "GET", path: paths[index % paths.length] ?? "", bearer }));
  },
};

export const millionValues: Attack = {
  group: "more",
  what: "fields, histograms and rows by a label that has a million values, twelve at once",
  everyMs: 3000,
  async prepare(attacker) {
    for (let body = 0; body < 100; body += 1) {
      const records = Array.from({ length: 10_000 }, (_, index) =>
        record(index, "m").replace(/\}$/, `,"attributes":[${attribute("request.id", `${body}-${index}`)}]}`),
      );
      await store(attacker, attribute("service.name", "values"), records.join(","));
    }
  },
  async wave(attacker) {
    const bearer = attacker.target.viewerToken;
    const range = `start=${hoursAgo(RETENTION_HOURS)}&source=values`;
    const paths = [
      `/query/logs/fields?${range}`,
      `/query/logs/patterns?${range}&limit=300`,
      `/query/logs/histogram?${range}&buckets=500&not_label.request.id=1-1`,
      `/query/logs?${range}&label.request.id=none`,
      `/query/logs?${range}&limit=500&label.request.id=99-${attacker.serial().slice(-2)}`,
    ];
    await attacker.many(12, 12, (index) => attacker.call({ method: "GET", path: paths[index % paths.length] ?? "", bearer }));
  },
};

export const unreadTails: Attack = {
  group: "more",
  what: "sixteen tails that never read, each with the costliest regular expression or none, while 10,000 records of 1 kB arrive a wave",
  everyMs: 3000,
  async wave(attacker, turn) {
    const bearer = attacker.target.viewerToken;
    const head = `HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${bearer}\r\n\r\n`;
    const paths = ["/query/logs/tail?source=tails", `/query/logs/tail?regex=${encodeURIComponent(COSTLIEST)}`];
    // They continue during the waves.
    if (turn % (UNREAD_MS / 3000) === 0)
      void attacker.many(TAILS, TAILS, (index) =>
        attacker.hold([`GET ${paths[index % paths.length]} ${head}`], UNREAD_MS, { read: false }),
      );
    const records = Array.from({ length: 10_000 }, (_, index) => record(index, `${attacker.serial()} ${"x".repeat(1000)}`));
    await store(attacker, attribute("service.name", "tails"), records.join(","));
  },
};
