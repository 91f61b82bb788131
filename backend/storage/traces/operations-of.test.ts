import { expect, test } from "vitest";
import { decodeWithHash, nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const now = new Date();
const nowNs = nanosecondsOf(now);
const DAY_NS = 86_400_000_000_000n;
const today = Math.floor(now.getTime() / 86_400_000);

function operations(resources: { service: string; spans: object[] }[]) {
  const resourceSpans = resources.map(({ service, spans }) => ({
    resource: { attributes: [stringAttribute("service.name", service)] },
    scopeSpans: [{ scope: {}, spans }],
  }));
  const context = { orgId: "org", hostId: "h", node: "n", receivedAtMs: now.getTime(), firstId: "1", bodyHash: "1", retentionDays: 30 };
  return decodeWithHash({ signal: "traces", body: Buffer.from(JSON.stringify({ resourceSpans })), context }).operations;
}

const one = (name: string, kind = 0, ago = 0n) => span(nowNs - ago, "a".repeat(32), "b".repeat(16), { name, kind });

test("returns each service, operation and kind once by day, whatever bytes their names contain", () => {
  const long = "ü".repeat(150);
  const found = operations([
    { service: "shop", spans: [one("GET /"), one("GET /", 2), one("GET /"), one(long), one("\0a|'\\")] },
    { service: long, spans: [one(""), one("GET /", 3, DAY_NS)] },
    { service: "shop", spans: [one("GET /")] },
  ]);
  expect(found).toEqual([
    {
      day: today,
      operations: [
        { service: "shop", operation: "GET /", kind: "UNSPECIFIED" },
        { service: "shop", operation: "GET /", kind: "SERVER" },
        { service: "shop", operation: long, kind: "UNSPECIFIED" },
        { service: "shop", operation: "\0a|'\\", kind: "UNSPECIFIED" },
        { service: long, operation: "", kind: "UNSPECIFIED" },
      ],
    },
    { day: today - 1, operations: [{ service: long, operation: "GET /", kind: "CLIENT" }] },
  ]);
});

test("omits names above 512 bytes, and takes at most 2,000 of one body", () => {
  const [day] = operations([{ service: "shop", spans: [one("x".repeat(512)), one("x".repeat(513)), one("ü".repeat(257))] }]) ?? [];
  expect(day?.operations.map(({ operation }) => operation.length)).toEqual([512]);
  const many = Array.from({ length: 1500 }, (_, n) => [one(`today ${n}`), one(`yesterday ${n}`, 0, DAY_NS)]).flat();
  const taken = operations([{ service: "shop", spans: many }]) ?? [];
  expect(taken.map((found) => found.operations.length)).toEqual([1500, 500]);
});
