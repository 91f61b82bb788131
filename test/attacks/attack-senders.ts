// Attacks with an ingest token through Loki push, remote write and gRPC: bodies that are large, deep, dense or invalid once decompressed,
// and calls that are slow, endless or without a credential.
import { randomBytes } from "node:crypto";
import { connect, constants } from "node:http2";
import { once } from "node:events";
import { bytesField } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { pushBody } from "../../backend/ingest/loki/push.fixture.ts";
import { writeBody } from "../../backend/ingest/remote-write/write-request.fixture.ts";
import { compressSnappy } from "../../backend/ingest/snappy.fixture.ts";
import type { Attack, Attacker } from "./attack.ts";
import { postOtlp } from "./attack-bodies.ts";

const MIB = 1024 * 1024;
const filled = (bytes: number, pattern: readonly number[]): Buffer => Buffer.alloc(bytes, Buffer.from(pattern));
const nowNs = (): string => `${Date.now()}000000`;
const repeat = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));

export const lokiPush: Attack = {
  group: "more",
  what: "Loki push: 31 MiB of empty entries or lists in a few kB, 40,000 streams, 100,000 levels, labels that do not end, blocks that lie",
  everyMs: 3000,
  async wave(attacker, turn) {
    const kinds: (() => { body: Buffer; type?: string; encoding?: string })[] = [
      () => ({ body: compressSnappy(bytesField(1, Buffer.concat([bytesField(1, Buffer.from('{a="b"}')), filled(31 * MIB, [0x12, 0])]))) }),
      () => ({ body: pushBody(repeat(40_000, (index) => ({ stream: { index: `${index}` }, values: [[nowNs(), "x"]] }))) }),
      () => ({ body: compressSnappy(bytesField(1, bytesField(1, Buffer.from(`{${'a="'.repeat(MIB)}}`)))) }),
      () => ({ body: Buffer.from([0xff, 0xff, 0xff, 0x0f, 0xfe, 1, 0]) }),
      () => ({ body: Buffer.from(`{"streams":[${"[],".repeat(8 * MIB)}[]]}`), type: "application/json" }),
      () => ({ body: Buffer.from(`{"streams":${"[".repeat(100_000)}`), type: "application/json" }),
      () => ({ body: Buffer.from(`{${repeat(500_000, (index) => `"k${index}":1`).join(",")}}`), type: "application/json" }),
    ];
    const post = kinds[turn % kinds.length]?.() ?? { body: Buffer.alloc(0) };
    await attacker.many(3, 3, async () => await postOtlp(attacker, "/loki/api/v1/push", post));
  },
};

export const remoteWrite: Attack = {
  group: "more",
  what: "remote write: 31 MiB of empty series, samples or symbols in a few kB, 20,000 new series, labels of gigabytes by references, wrong labels",
  everyMs: 3000,
  async wave(attacker, turn) {
    const word = attacker.serial();
    const second = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
    const symbols = Buffer.concat(["", "__name__", "m", "v".repeat(4000)].map((text) => bytesField(4, Buffer.from(text))));
    const amplified = bytesField(5, bytesField(1, Buffer.from([1, 2, ...repeat(60, (index) => (index % 2 === 0 ? 2 : 3))])));
    const kinds: (() => { body: Buffer; type?: string })[] = [
      () => ({ body: compressSnappy(filled(31 * MIB, [0x0a, 0])) }),
      () => ({ body: compressSnappy(bytesField(1, filled(31 * MIB, [0x12, 0]))) }),
      () => ({ body: compressSnappy(filled(31 * MIB, [0x22, 0])), type: second }),
      () => ({ body: compressSnappy(Buffer.concat([symbols, ...repeat(200_000, () => amplified)])), type: second }),
      () => ({
        body: writeBody(
          repeat(20_000, (index) => ({
            labels: [
              ["__name__", "attack"],
              ["org_id", "other"],
              ["series", `${word}-${index}`],
            ],
            samples: [[1, Date.now()]],
          })),
        ),
      }),
      () => ({ body: compressSnappy(randomBytes(MIB)) }),
    ];
    const post = kinds[turn % kinds.length]?.() ?? { body: Buffer.alloc(0) };
    await attacker.many(3, 3, async () => await postOtlp(attacker, "/api/v1/write", { ...post, encoding: "snappy" }));
  },
};

const LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/** One connection with a call for each of `messages`; a message is what is sent of it, and whether it ends. */
async function callGrpc(
  attacker: Attacker,
  token: string,
  messages: readonly { readonly bytes: Buffer; readonly ends: boolean }[],
): Promise<void> {
  const session = connect(attacker.target.grpcUrl);
  session.on("error", () => undefined);
  const headers = {
    ":method": "POST",
    ":path": LOGS,
    "content-type": "application/grpc",
    "grpc-encoding": "gzip",
    te: "trailers",
    "x-api-key": token,
  };
  const calls = messages.map(async ({ bytes, ends }) => {
    const stream = session.request(headers);
    stream.on("error", () => undefined).resume();
    stream.once("response", (answer) => attacker.count(`grpc-status ${String(answer["grpc-status"] ?? 0)}`));
    stream.write(bytes);
    if (ends) stream.end();
    await once(stream, "close");
  });
  const timer = setTimeout(() => session.destroy(), 5000);
  await Promise.all(calls);
  clearTimeout(timer);
  session.destroy();
}

function framedAs(length: number, bytes: Buffer, isCompressed = false): Buffer {
  const head = Buffer.from([Number(isCompressed), 0, 0, 0, 0]);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

export const grpcCalls: Attack = {
  group: "more",
  what: "gRPC: calls that begin and never end, lengths of 4 GiB, wrong gzip, guessed tokens, 100 streams that are reset at once, 50 silent connections",
  everyMs: 5000,
  async wave(attacker) {
    const { ingestToken, grpcUrl } = attacker.target;
    const guess = `ig_${randomBytes(32).toString("base64url")}`;
    const endless = repeat(16, () => ({ bytes: framedAs(8 * MIB, Buffer.alloc(100 * 1024)), ends: false }));
    const wrong = [
      { bytes: framedAs(0xffff_ffff, Buffer.alloc(10)), ends: true },
      { bytes: framedAs(100, Buffer.alloc(100), true), ends: true },
      { bytes: framedAs(5, Buffer.from([0x0a, 0xff, 0xff, 0xff, 0x0f])), ends: true },
      { bytes: Buffer.from([0, 0]), ends: true },
      { bytes: framedAs(1, Buffer.alloc(MIB)), ends: true },
    ];
    await Promise.all([
      ...repeat(5, async () => await callGrpc(attacker, ingestToken, endless)),
      callGrpc(attacker, ingestToken, wrong),
      ...repeat(10, async () => await callGrpc(attacker, guess, endless)),
    ]);
    const session = connect(grpcUrl);
    session.on("error", () => undefined);
    const closed = once(session, "close");
    for (const _ of repeat(100, () => undefined)) {
      if (session.destroyed) break;
      const stream = session.request({ ":method": "POST", ":path": LOGS, "content-type": "application/grpc" });
      stream.on("error", () => undefined).close(constants.NGHTTP2_CANCEL);
    }
    setTimeout(() => session.destroy(), 1000);
    await closed;
    await attacker.many(50, 50, async () => await attacker.hold(["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], 8000, { url: grpcUrl }));
  },
};
