/* oxlint-disable max-lines-per-function, unicorn/consistent-function-scoping -- a test suite that is not called .test.ts */
// Tests for every LogStore and SpanStore, run for each engine by log-store.embedded.engine.test.ts and log-store.http.engine.test.ts. Bodies enter
// through the real ingest, so a difference between the columns of decoder and table fails.
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { ClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../backend/engines/clickhouse/sql.ts";
import {
  logRecord,
  logsBody,
  nanosecondsOf,
  signingKey,
  span,
  stringAttribute,
  tracesBody,
} from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { OtlpDecoder } from "../../backend/ingest/otlp/otlp-decoder.ts";
import type { IngestResult } from "../../backend/ingest/ingest-handler.ts";
import type { BodyClaims } from "../../backend/replicas/body-claims.ts";
import type { PageResult } from "../../backend/storage/page.ts";
import type { Cursor } from "../../backend/storage/page.ts";
import { createOtlpIngest } from "../../backend/ingest/otlp/otlp-ingest.ts";
import { ClickHouseSpanStore, type SpanFilter } from "../../backend/storage/traces/span-store.ts";
import { ClickHouseLogStore, type LogFilter, type LogRow } from "../../backend/storage/logs/log-store.ts";

/** An element of GET /query/traces. */
interface SpanRow {
  readonly Timestamp: string;
  readonly TraceID: string;
  readonly SpanID: string;
  readonly ParentSpanID: string;
  readonly Service: string;
  readonly Operation: string;
  readonly DurationMs: number;
  readonly StatusCode: "UNSET" | "OK" | "ERROR";
  readonly Error: boolean;
  readonly Attributes: Record<string, string>;
}

const DAY_NS = 86_400_000_000_000n;
const EVERYTHING = { range: { start: undefined, end: undefined }, limit: 500, after: undefined };

/** Logs and spans of one engine, with real decoding. */
export async function openStores(clickhouse: ClickHouse, claims?: BodyClaims) {
  await using stack = new AsyncDisposableStack();
  const decoder = stack.use(new OtlpDecoder(1));
  const logs = stack.use(await ClickHouseLogStore.open(clickhouse, claims));
  const spans = stack.use(await ClickHouseSpanStore.open(clickhouse, () => 30, claims));
  const ingestLogs = createOtlpIngest({ signal: "logs", store: logs, decoder, retentionDays: () => 30 });
  const ingestTraces = createOtlpIngest({ signal: "traces", store: spans, decoder, retentionDays: () => 30 });
  const owned = stack.move();
  return { logs, spans, ingestLogs, ingestTraces, [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose]() };
}

export function rowsOf<Row>({ json }: PageResult): Row[] {
  return JSON.parse(json.toString()) as Row[];
}

export type Stores = Awaited<ReturnType<typeof openStores>>;

export interface Subject {
  clickhouse: ClickHouse;
  stores: Stores;
}

export function describeStores(subject: () => Subject): void {
  const now = new Date();
  const nowNs = nanosecondsOf(now);
  const org = () => randomUUID();
  const counts = ({ accepted, dropped }: IngestResult) => ({ accepted, dropped });
  const sendLogs = async (orgId: string, body: Buffer, hostId?: string) =>
    counts(await subject().stores.ingestLogs(signingKey(orgId, hostId), body, { receivedAt: now }));
  const sendSpans = async (orgId: string, body: Buffer) =>
    counts(await subject().stores.ingestTraces(signingKey(orgId), body, { receivedAt: now }));
  const readLogs = async (orgId: string, filter: Partial<LogFilter> = {}): Promise<LogRow[]> =>
    rowsOf(await subject().stores.logs.query(orgId, { ...EVERYTHING, labels: [], ...filter }));
  const readSpans = async (orgId: string, filter: Partial<SpanFilter> = {}) =>
    rowsOf<SpanRow>(await subject().stores.spans.query(orgId, { ...EVERYTHING, ...filter }));

  describe("a log record", () => {
    it("is returned with the mapping of the contract, and with the identity of the key", async () => {
      const orgId = org();
      const record = logRecord(nowNs + 1n, "disk \t'full'\n\\ ü 😀 \0 end", {
        severityText: "WARN",
        severityNumber: 13,
        traceId: "0AF7651916CD43DD8448EB211C80319C",
        spanId: "B7AD6B7169203331",
        attributes: [
          stringAttribute("org_id", "forged"),
          stringAttribute("k'e\ty", "v\\'"),
          { key: "n", value: { intValue: "9007199254740993" } },
        ],
      });
      const answer = await sendLogs(
        orgId,
        logsBody([record], [stringAttribute("service.name", "shop"), stringAttribute("host_id", "forged")]),
      );
      expect(answer).toEqual({ accepted: 1, dropped: {} });
      expect(await readLogs(orgId)).toEqual([
        {
          timestamp: now.toISOString().replace("Z", "000001Z"),
          level: "warn",
          source: "shop",
          message: "disk \t'full'\n\\ ü 😀 \0 end",
          labels: { "k'e\ty": "v\\'", n: "9007199254740993" },
          host_id: `host-of-${orgId}`,
          node: `node-of-host-of-${orgId}`,
          trace_id: "0af7651916cd43dd8448eb211c80319c",
          span_id: "b7ad6b7169203331",
          severity_number: 13,
          scope: "",
        },
      ]);
    });

    it("is found by every filter and by their conjunction, and by no other organisation", async () => {
      const orgId = org();
      const labelled = {
        severityText: "Error",
        attributes: [stringAttribute("a", "1"), stringAttribute("b", "it's"), stringAttribute("empty", "")],
        traceId: "0af7651916cd43dd8448eb211c80319c",
      };
      await sendLogs(orgId, logsBody([logRecord(nowNs, "Größe ÜBER limit %_", labelled), logRecord(nowNs - 1n, "other")]));
      const filters: Partial<LogFilter>[] = [
        { source: "shop", level: "ERROR" },
        { q: ["grösse über".replace("ss", "ß")] },
        { q: ["LIMIT %_", "", "größe"] },
        {
          labels: [
            ["a", "1"],
            ["b", "it's"],
          ],
        },
        { labels: [["empty", ""]] },
        { range: { start: nowNs, end: nowNs } },
        { hostId: `host-of-${orgId}`, node: `node-of-host-of-${orgId}`, level: "error" },
        { notQ: ["OTHER", "nowhere"] },
        { regex: ["^Gr.{2}e", "(?i)über LIMIT"] },
        { notRegex: ["^other$"] },
        { notLabels: [["missing", ""]], level: "error" },
        { traceId: "0af7651916cd43dd8448eb211c80319c" },
      ];
      for (const filter of filters) expect((await readLogs(orgId, filter)).map((row) => row.message)).toEqual(["Größe ÜBER limit %_"]);
      for (const none of [
        { labels: [["missing", ""]] },
        {
          labels: [
            ["a", "1"],
            ["a", "2"],
          ],
        },
        { q: ["\\"] },
        { q: ["LIMIT", "nowhere"] },
        { source: "sho" },
        { q: ["limit"], notQ: ["größe"] },
        { regex: ["LIMIT"] },
        { regex: ["^", "'; DROP TABLE logs"] },
        { notRegex: ["[a-z]"] },
        {
          level: "error",
          notLabels: [
            ["a", "2"],
            ["a", "1"],
          ],
        },
        { traceId: "f".repeat(32) },
      ]) {
        expect(await readLogs(orgId, none as Partial<LogFilter>)).toEqual([]);
      }
      expect(await readLogs(org())).toEqual([]);
    });

    it("is not searched with an invalid regular expression, which is rejected with the parameter, also without records", async () => {
      for (const [filter, message] of [
        [{ regex: ["a", "(b"] }, "regex: not a regular expression of RE2: missing ): (b"],
        [{ regex: ["a"], notRegex: ["b**"] }, "not_regex: not a regular expression of RE2: bad repetition operator: **"],
        [{ regex: ["(?=a)"] }, "regex: not a regular expression of RE2: invalid perl operator: (?="],
        [{ regex: ["a{1001}"] }, "regex: not a regular expression of RE2: invalid repetition size: {1001}"],
      ] as const) {
        await expect(readLogs(org(), filter)).rejects.toMatchObject({ code: "invalid_parameter", message });
      }
    });

    it("is searched with a regular expression in its first 64 KiB, line breaks and zeros included", async () => {
      const orgId = org();
      const filler = "x".repeat(64 * 1024 - 10);
      await sendLogs(orgId, logsBody([logRecord(nowNs, `one\ntwo\0${filler}`), logRecord(nowNs, `${filler}          three`)]));
      for (const [regex, found] of [
        ["one.two", 1],
        ["o\\x00x", 1],
        ["^x.*three$", 0],
        ["^x", 1],
      ] as const) {
        expect([regex, (await readLogs(orgId, { regex: [regex] })).length]).toEqual([regex, found]);
      }
    });

    it("within the retention is stored, and outside of it is dropped and counted", async () => {
      const orgId = org();
      const days = Array.from({ length: 30 }, (_, day) => logRecord(nowNs - BigInt(day) * DAY_NS, `day ${day}`));
      const odd = [
        logRecord(nowNs - 31n * DAY_NS, "old"),
        logRecord(1n, "1970"),
        logRecord(nowNs + DAY_NS + 10_000_000_000n, "future"),
        logRecord(18_446_744_073_709_551_615n, "2554"),
      ];
      const answer = await sendLogs(orgId, logsBody([...days, ...odd]));
      expect(answer).toEqual({ accepted: 30, dropped: { too_old: 2, too_far_ahead: 2 } });
      expect((await readLogs(orgId)).map((row) => row.message)).toEqual(days.map((_, day) => `day ${day}`));
    });
  });

  describe("pages", () => {
    it("with equal times neither repeat nor omit a record", async () => {
      const orgId = org();
      const times = [0n, 0n, 0n, 0n, 0n, 0n, 0n, 1n, 1n, 2n, 3n, 3n, 3n];
      for (const host of ["h1", "h2", "h3"])
        await sendLogs(orgId, logsBody(times.map((at, index) => logRecord(nowNs + at, `${host}/${index}`))), host);
      const whole = (await readLogs(orgId)).map((row) => row.message);
      expect(new Set(whole).size).toBe(39);
      for (const limit of [1, 2, 5, 38, 39]) {
        const paged: string[] = [];
        let after: Cursor | undefined;
        do {
          const page = await subject().stores.logs.query(orgId, { ...EVERYTHING, labels: [], limit, after });
          const rows = rowsOf<LogRow>(page);
          paged.push(...rows.map((row) => row.message));
          expect(rows.length).toBeLessThanOrEqual(limit);
          after = page.next;
        } while (after);
        expect(paged).toEqual(whole);
      }
    });
  });

  describe("pages of large records", () => {
    const MIB = 1024 * 1024;

    it("are limited in bytes, have at least one record, and neither repeat nor omit any", async () => {
      const orgId = org();
      // Newest first: one of 30 MiB, 20 of 1 MiB, one of 30 MiB, 30 small ones.
      const sizes = [...Array.from({ length: 30 }, () => 10), 30 * MIB, ...Array.from({ length: 20 }, () => MIB), 30 * MIB];
      const messages = sizes.map((size, index) => `${index} `.padEnd(size, "abcdefghij"));
      for (const range of [
        [0, 31],
        [31, 51],
        [51, 52],
      ] as const) {
        const records = messages.slice(...range).map((message, index) => logRecord(nowNs + BigInt(range[0] + index), message));
        await sendLogs(orgId, logsBody(records));
      }
      const pages: number[] = [];
      const seen: string[] = [];
      let after: Cursor | undefined;
      do {
        const page = await subject().stores.logs.query(orgId, { ...EVERYTHING, labels: [], after });
        const rows = rowsOf<LogRow>(page);
        seen.push(...rows.map((row) => row.message));
        pages.push(rows.length);
        expect(page.json.length).toBeLessThan(rows.length === 1 ? 31 * MIB : 17 * MIB);
        after = page.next;
      } while (after && pages.length < 20);
      expect(seen.map((message) => message.slice(0, 4))).toEqual(messages.map((message) => message.slice(0, 4)).toReversed());
      expect(seen.every((message, index) => message === messages[51 - index])).toBe(true);
      expect(pages).toEqual([1, 15, 5, 1, 30]);
    });
  });

  describe("a repeated body", () => {
    it("of the same sender, byte for byte, is stored once, also while the first is in progress", async () => {
      const orgId = org();
      const body = () => logsBody([logRecord(nowNs, "once"), logRecord(nowNs - 3n * DAY_NS, "once, on another day")]);
      await Promise.all([sendLogs(orgId, body()), sendLogs(orgId, body()), sendLogs(orgId, body())]);
      await sendLogs(orgId, body());
      expect((await readLogs(orgId)).map((row) => row.message)).toEqual(["once", "once, on another day"]);
    });

    it("is another body if it is from another sender, or has one more record", async () => {
      const orgId = org();
      await sendLogs(orgId, logsBody([logRecord(nowNs, "x")]), "h1");
      await sendLogs(orgId, logsBody([logRecord(nowNs, "x")]), "h2");
      await sendLogs(orgId, logsBody([logRecord(nowNs, "x"), logRecord(nowNs, "y")]), "h1");
      expect(await readLogs(orgId)).toHaveLength(4);
    });

    it("is stored each time if a record has no time of its own", async () => {
      const orgId = org();
      const body = () => logsBody([logRecord(nowNs, "timed"), { body: { stringValue: "untimed" } }]);
      await sendLogs(orgId, body());
      await sendLogs(orgId, body());
      expect(await readLogs(orgId)).toHaveLength(4);
    });

    it("is recognised by a store that is opened later, as after a restart", async () => {
      const orgId = org();
      const body = () => logsBody([logRecord(nowNs, "before"), logRecord(nowNs - DAY_NS, "before, yesterday")]);
      await sendLogs(orgId, body());
      await using reopened = await openStores(subject().clickhouse);
      await reopened.ingestLogs(signingKey(orgId), body(), { receivedAt: now });
      expect(await readLogs(orgId)).toHaveLength(2);
    });
  });

  describe("a span", () => {
    const TRACE = "0af7651916cd43dd8448eb211c80319c";

    it("is returned with all ten fields, and keeps the fields that are not shown", async () => {
      const orgId = org();
      const full = span(nowNs + 7n, TRACE.toUpperCase(), "B7AD6B7169203331", {
        parentSpanId: "00F067AA0BA902B7",
        kind: "SPAN_KIND_SERVER",
        traceState: "a=b",
        status: { code: "STATUS_CODE_ERROR", message: "boom" },
        attributes: [stringAttribute("http.route", "/x"), stringAttribute("service.name", "forged"), stringAttribute("node", "forged")],
        events: [{ timeUnixNano: String(nowNs), name: "it's", attributes: [stringAttribute("k", "v\n")] }],
        links: [{ traceId: TRACE, spanId: "b7ad6b7169203331", attributes: [] }],
      });
      await sendSpans(orgId, tracesBody([full], [stringAttribute("service.name", "cart"), stringAttribute("http.route", "resource's")]));
      expect(await readSpans(orgId)).toEqual([
        {
          Timestamp: now.toISOString().replace("Z", "000007Z"),
          TraceID: TRACE,
          SpanID: "b7ad6b7169203331",
          ParentSpanID: "00f067aa0ba902b7",
          Service: "cart",
          Operation: "GET /",
          DurationMs: 1.5,
          StatusCode: "ERROR",
          Error: true,
          Attributes: { "http.route": "/x" },
        },
      ]);
      const [row] = await subject().clickhouse.query<Record<string, string>>(
        sql`SELECT kind, status_message, trace_state, events, links FROM spans WHERE org_id = ${orgId}`,
      );
      expect({ ...row, events: JSON.parse(row?.["events"] ?? ""), links: JSON.parse(row?.["links"] ?? "") }).toEqual({
        kind: "SERVER",
        status_message: "boom",
        trace_state: "a=b",
        events: [{ time: String(nowNs), name: "it's", attributes: { k: "v\n" } }],
        links: [{ trace_id: TRACE, span_id: "b7ad6b7169203331", trace_state: "", attributes: {} }],
      });
    });

    it("is found by trace id, service and error, by its organisation only; one without ids is dropped and counted", async () => {
      const orgId = org();
      const id = (n: number) => n.toString(16).padStart(16, "0");
      const spans = [
        span(nowNs, TRACE, id(1)),
        span(nowNs + 1n, TRACE, id(2), { status: { code: 2 } }),
        span(nowNs + 2n, TRACE.replace("0", "1"), id(3), { status: { code: 1 } }),
        span(nowNs, "", id(4)),
        span(nowNs, TRACE, "0".repeat(16)),
      ];
      expect(await sendSpans(orgId, tracesBody(spans))).toEqual({ accepted: 3, dropped: { empty_ids: 2 } });
      const ids = async (filter: Partial<SpanFilter>) => (await readSpans(orgId, filter)).map((row) => Number(row.SpanID));
      expect(await ids({ traceId: TRACE })).toEqual([2, 1]);
      expect(await ids({ error: true })).toEqual([2]);
      expect(await ids({ service: "shop" })).toEqual([3, 2, 1]);
      expect(await ids({ service: "other" })).toEqual([]);
      expect(await readSpans(org(), { traceId: TRACE })).toEqual([]);
    });
  });
}
