// Reads and repairs the file of one disk queue as the collector stores it (exporterhelper v0.149, persistent_queue.go and meta.proto): the
// keys of entries are numbers, and the value of the key `qmv0` contains the read index, the write index and the entries that are being
// sent. On a full disk, the collector may skip an entry: it stays in the file below the read index and is never sent. `rewind` moves the
// read index back. Invariant: no collector runs while this module reads or changes the file.
import { open } from "node:fs/promises";
import { BodyError } from "../../../common/otlp-metrics/document.ts";
import { BYTES, FIXED64, WireReader } from "../../../common/protobuf/wire-reader.ts";
import { MAX_METADATA_BYTES } from "../../agent-limits.ts";
import { type PageUse, readEntries } from "./bbolt-file.ts";

const METADATA_KEY = "qmv0";
/** Fields of PersistentMetadata. */
const FIELD = { bytes: 2, readIndex: 3, dispatched: 5 };

export interface QueueFile {
  readonly path: string;
  readonly entries: number;
  /** Bytes of all entries. */
  readonly bytes: number;
  readonly lowestIndex: number;
  /** Number of entries that the collector skipped: they are below the read index and not being sent. */
  readonly skipped: number;
  readonly pages: PageUse;
  readonly metadata: Metadata | undefined;
}

interface Metadata {
  readonly value: Buffer;
  readonly valueAt: number;
  readonly readIndex: number;
  readonly dispatched: readonly number[];
  /** Field number → offset of its fixed64 value. */
  readonly positions: ReadonlyMap<number, number>;
  /** Start and end of the list of entries that are being sent, including its tag. */
  readonly list: readonly [number, number] | undefined;
}

/** Undefined for a damaged file or a file of 0 bytes; an empty queue has 0 entries. Throws if the file cannot be read. */
export async function readQueueFile(path: string): Promise<QueueFile | undefined> {
  const indexes: number[] = [];
  let bytes = 0;
  let metadataAt: { valueAt: number; valueBytes: number } | undefined;
  const pages = await readEntries(path, ({ key, valueAt, valueBytes }) => {
    const name = key.toString("latin1");
    if (name === METADATA_KEY) metadataAt = { valueAt, valueBytes };
    if (!/^\d+$/.test(name)) return;
    indexes.push(Number(name));
    bytes += valueBytes;
  });
  if (!pages) return undefined;
  const metadata = metadataAt && (await readMetadata(path, metadataAt.valueAt, metadataAt.valueBytes));
  const sending = new Set(metadata?.dispatched);
  const skipped = indexes.filter((index) => metadata && index < metadata.readIndex && !sending.has(index)).length;
  const lowestIndex = indexes.reduce((lowest, index) => Math.min(lowest, index), Number.POSITIVE_INFINITY);
  return { path, entries: indexes.length, bytes, lowestIndex, skipped, pages, metadata };
}

/**
 * Makes the collector send every entry again, in the original order: sets the read index to the lowest index and empties the list of
 * entries that are being sent. The backend and the proxy recognise entries that were already delivered.
 */
export async function rewind({ path, metadata, lowestIndex, bytes }: QueueFile): Promise<void> {
  const readIndexAt = metadata?.positions.get(FIELD.readIndex);
  if (!metadata || readIndexAt === undefined || lowestIndex >= metadata.readIndex) return;
  const value = Buffer.from(metadata.value);
  value.writeBigUInt64LE(BigInt(lowestIndex), readIndexAt);
  const bytesAt = metadata.positions.get(FIELD.bytes);
  if (bytesAt !== undefined) value.writeBigUInt64LE(BigInt(bytes), bytesAt);
  if (metadata.list) emptyList(value.subarray(...metadata.list));
  const file = await open(path, "r+");
  try {
    await file.write(value, 0, value.length, metadata.valueAt);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/**
 * Empties a packed list in place, because the length of the value must not change: overwrites it with empty lists of two bytes each; if its
 * length is odd, the first one has three bytes.
 */
function emptyList(list: Buffer): void {
  const tag = (FIELD.dispatched << 3) | BYTES;
  const isOdd = list.length % 2 === 1;
  if (isOdd) list.set([tag, 0x80, 0]);
  for (let at = isOdd ? 3 : 0; at < list.length; at += 2) list.set([tag, 0], at);
}

async function readMetadata(path: string, valueAt: number, valueBytes: number): Promise<Metadata | undefined> {
  if (valueBytes > MAX_METADATA_BYTES) return undefined;
  const value = Buffer.alloc(valueBytes);
  const file = await open(path, "r");
  try {
    await file.read(value, 0, valueBytes, valueAt);
  } finally {
    await file.close();
  }
  return parseMetadata(value, valueAt);
}

/** Undefined if the value does not have the format of `qmv0` that is described above. */
function parseMetadata(value: Buffer, valueAt: number): Metadata | undefined {
  const positions = new Map<number, number>();
  const dispatched: number[] = [];
  let list: [number, number] | undefined;
  const reader = new WireReader(value);
  try {
    for (let at = 0; at < value.length;) {
      at = reader.next(at, value.length);
      const { field, wireType, tagStart, start, end } = reader;
      if (wireType === FIXED64) positions.set(field, start);
      else if (wireType === BYTES && field === FIELD.dispatched && (end - start) % 8 === 0 && (!list || list[1] === tagStart)) {
        for (let item = start; item < end; item += 8) dispatched.push(Number(value.readBigUInt64LE(item)));
        list = [list?.[0] ?? tagStart, end];
      } else return undefined;
    }
  } catch (error) {
    if (error instanceof BodyError) return undefined;
    throw error;
  }
  const readIndexAt = positions.get(FIELD.readIndex);
  const readIndex = readIndexAt === undefined ? 0 : Number(value.readBigUInt64LE(readIndexAt));
  return { value, valueAt, readIndex, dispatched, positions, list };
}
