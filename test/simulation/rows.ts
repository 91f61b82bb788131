// Encodes rows of the simulated table in the engine's insert format (simulated-clickhouse.ts has the columns).
import type { NativeRows } from "../../backend/engines/clickhouse/native-block.ts";

const DAY_NS = 86_400_000_000_000n;

export interface SectionOf {
  readonly orgId: string;
  readonly hostId: string;
  readonly bodyHash: string;
  readonly receivedS: number;
  readonly day: number;
  readonly firstId: number;
  readonly count: number;
}

export function encodeSection(section: SectionOf): NativeRows & { readonly day: number } {
  const { day, count } = section;
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  const hash = Buffer.alloc(8);
  hash.writeBigUInt64LE(BigInt(section.bodyHash));
  const received = Buffer.alloc(4);
  received.writeUInt32LE(section.receivedS);
  const times = Buffer.alloc(8 * count);
  const ids = Buffer.alloc(8 * count);
  for (let index = 0; index < count; index += 1) {
    times.writeBigInt64LE(BigInt(day) * DAY_NS + BigInt(index), 8 * index);
    ids.writeBigUInt64LE(BigInt(section.firstId + index), 8 * index);
  }
  const streams = [text(section.orgId), text(section.hostId), hash, received, times, ids];
  const length = streams.reduce((sum, stream) => sum + stream.length, 0);
  // Its own memory, which the product frees once the rows are stored.
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const stream of streams) {
    bytes.set(stream, at);
    at += stream.length;
  }
  return { day, count, bytes, streamLengths: streams.map((stream) => stream.length) };
}
