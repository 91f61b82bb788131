// A body that is refused because of its content is charged to its organisation at the cost of reading it, however small it was as sent.
import { expect, test } from "vitest";
import { createOwnMetrics } from "../operations/own-metrics.ts";
import { type BodyEncoding, IngestHandler, type IngestSignal } from "./ingest-handler.ts";
import { MetricsThreads } from "./otlp/metrics/metrics-threads.ts";
import { bytesField } from "./otlp/protobuf/encode.fixture.ts";
import { OtlpDecoder } from "./otlp/otlp-decoder.ts";
import { createOtlpIngest } from "./otlp/otlp-ingest.ts";
import { createRemoteWriteIngest } from "./remote-write/remote-write-ingest.ts";
import { compressSnappy } from "./snappy.fixture.ts";

const MIB = 1024 * 1024;
const EMPTY = Buffer.alloc(20 * MIB, Buffer.from([0x0a, 0]));

async function codesOf(encoding: BodyEncoding, signal: "logs" | "metrics", ingest: IngestSignal, push: Buffer): Promise<unknown[]> {
  const handler = new IngestHandler({
    ownMetrics: createOwnMetrics({ defaults: false }),
    memoryBytes: 128 * MIB,
    limitsOf: () => ({ bytesPerSecond: MIB, recordsPerSecond: 0 }),
    draining: () => false,
  });
  const sender = { keyId: "t", kind: "direct", orgId: "org", hostId: "t", node: "node", createdAt: new Date() } as const;
  const codes: unknown[] = [];
  for (let count = 0; count < 2; count += 1) {
    const read = () => compressSnappy(push);
    // oxlint-disable-next-line no-await-in-loop -- the second one follows the first
    codes.push(await handler.handle({ sender, signal, ingest, encoding, read }).catch(({ code }: { code: unknown }) => code));
  }
  expect(handler.budget.heldBytes).toBe(0);
  return codes;
}

test("rejects a Loki push before it is expensive", async () => {
  await using decoder = new OtlpDecoder();
  const store = { insert: async () => {} };
  const ingest = createOtlpIngest({ signal: "logs", decoder, store, retentionDays: () => 30 });
  const push = bytesField(1, Buffer.concat([bytesField(1, Buffer.from("no labels")), EMPTY]));
  expect(await codesOf("loki_protobuf", "logs", ingest, push)).toEqual(["invalid_payload", "over_quota"]);
});

test("rejects a remote write before it is expensive", async () => {
  await using threads = new MetricsThreads();
  const activeSeries = { hashKeyOf: () => undefined, admitHashes: async () => 0 };
  const store = { writeRequest: async () => {} };
  const ingest = createRemoteWriteIngest({
    threads,
    store,
    activeSeries,
    storeExemplars: async () => ({ stored: 0, dropped: {} }),
    retentionMs: () => 86_400_000,
  });
  expect(await codesOf("remote_write", "metrics", ingest, EMPTY)).toEqual(["invalid_payload", "over_quota"]);
});
