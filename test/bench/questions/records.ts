// Generates log records in several shapes, like those of real services, for the benchmark `questions`. Invariant: both programs get the
// same records; the same number generates the same record.
import { logRecord, logsBody, stringAttribute } from "../../../backend/ingest/otlp/otlp-body.fixture.ts";
import { LINES } from "../../../backend/ingest/otlp/file-lines.fixture.ts";
import { logsInProtobuf } from "./otlp-protobuf.ts";

export const SHAPES = ["short", "json", "stack", "cardinality"] as const;
export type Shape = (typeof SHAPES)[number];

export const SERVICES = 20;
/** In the message of one record only. */
export const RARE_WORD = "zebrafish7731";
const LEVELS = ["info", "info", "info", "info", "debug", "info", "warn", "error"] as const;
const SEVERITIES = { debug: 5, info: 9, warn: 13, error: 17 } as const;
const STATUSES = ["200", "200", "200", "201", "404", "500"];

/** A hash of a number as 16 hex digits; `salt` makes another of it. */
function hex(number: number, salt: number): string {
  let state = (Math.imul(number, 0x9e3779b1) ^ Math.imul(salt, 0x85ebca6b)) >>> 0;
  const half = (): string => {
    state = Math.imul(state ^ (state >>> 16), 0x7feb352d) >>> 0;
    state = Math.imul(state ^ (state >>> 15), 0x846ca68b) >>> 0;
    return ((state ^ (state >>> 16)) >>> 0).toString(16).padStart(8, "0");
  };
  return half() + half();
}

function short(n: number): string {
  switch (n % 8) {
    case 0:
      return `GET /api/items/${n % 997} served to ${hex(n, 1).slice(8)} in ${n % 900} ms`;
    case 1:
      return `user ${n % 99_991} logged in from 10.${n % 255}.${n % 13}.7 session ${hex(n, 3)}`;
    case 2:
      return `order ${n} created, total ${n % 5000}.99 EUR, payment authorised`;
    case 3:
      return `cache miss for key product:${n % 30_011}, loading from database`;
    case 4:
      return `query took ${n % 700} ms: SELECT * FROM orders WHERE customer_id = ${n % 99_991}`;
    case 5:
      return `message ${hex(n, 5)} consumed from topic orders partition ${n % 12} offset ${n}`;
    case 6:
      return `retrying request ${hex(n, 6)} to inventory after timeout of 300 ms, attempt ${(n % 3) + 1}`;
    default:
      return `failed to connect to database at 10.0.0.${n % 250}:5432: connection refused (request ${hex(n, 7)})`;
  }
}

const MESSAGES: Readonly<Record<Shape, (n: number) => string>> = {
  short,
  json: (n) =>
    JSON.stringify({
      msg: short(n),
      caller: `handler.go:${n % 400}`,
      user: { id: n % 99_991, plan: "pro" },
      request_id: hex(n, 8),
      took_ms: n % 700,
    }),
  stack: (n) => {
    const frames = Array.from(
      { length: 12 },
      (_, frame) => `    at com.example.shop.Layer${(n + frame) % 90}.call(Layer.java:${(n * 7 + frame) % 900})`,
    );
    return n % 20 === 0 ? [`java.lang.IllegalStateException: ${short(n)}`, ...frames].join("\n") : short(n);
  },
  cardinality: (n) => `${hex(n, 9)} ${hex(n, 10)} ${short(n)} ${hex(n, 11)}`,
};

/** The records of one service, in each encoding. `lines`: as the agent sends lines of files, whose levels the backend parses. */
export interface Batch {
  readonly json: () => Buffer;
  readonly protobuf: () => Buffer;
  readonly lines: () => Buffer;
}

/** `numbers`: of the records; `timeOf`: nanoseconds; `asLines`: messages begin with their time and level. */
export function batch(shape: Shape, numbers: readonly number[], timeOf: (n: number) => bigint, rare: number, asLines = false): Batch {
  const [first = 0] = numbers;
  const resource = {
    "service.name": `service-${Math.floor(first / numbers.length) % SERVICES}`,
    "k8s.pod.name": `pod-${first % 60}`,
    "k8s.namespace.name": "shop",
    "service.version": "1.2.3",
  };
  const made = numbers.map((n) => {
    const level = LEVELS[n % 8] as keyof typeof SEVERITIES;
    const attributes = {
      "http.route": `/api/items/${n % 97}`,
      "http.request.method": n % 5 === 0 ? "POST" : "GET",
      "http.response.status_code": STATUSES[n % 6] as string,
      "request.id": hex(n, 12),
    };
    const said = n === rare ? `${MESSAGES[shape](n)} ${RARE_WORD}` : MESSAGES[shape](n);
    const message = asLines ? `${new Date(Number(timeOf(n) / 1_000_000n)).toISOString()} ${level.toUpperCase()} ${said}` : said;
    return { n, level, message, attributes };
  });
  const json = () =>
    made.map(({ n, level, message, attributes }) =>
      logRecord(timeOf(n), message, { severityNumber: SEVERITIES[level], severityText: level, attributes: pairs(attributes) }),
    );
  const plain = () =>
    made.map(({ n, level, ...record }) => ({ ...record, timeNs: timeOf(n), severity: { number: SEVERITIES[level], text: level } }));
  const lines = () => made.map(({ n, message, attributes }) => ({ message, attributes, timeNs: timeOf(n) }));
  return {
    json: () => logsBody(json(), pairs(resource)),
    protobuf: () => logsInProtobuf(resource, plain()),
    lines: () => logsInProtobuf(resource, lines(), LINES.name),
  };
}

function pairs(attributes: Readonly<Record<string, string>>) {
  return Object.entries(attributes).map(([key, value]) => stringAttribute(key, value));
}
