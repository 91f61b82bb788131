// Reads how far the collector has read its files, from the offsets that it stores at the end of each pass, in protobuf (pkg/stanza v0.149,
// fileconsumer/internal/checkpoint/proto). Invariants: it never writes; a store that changes while it is read, or has another form, yields
// undefined. By the offsets, the agent reports files that are not read, closes deleted files that are read to their end, and opens rotated
// ones that are not (agent/collector/files/log-files.ts); without them, it closes no deleted file before its age or their number requires it.
import { type FileHandle, open } from "node:fs/promises";
import { VARINT, WireReader } from "../../../common/protobuf/wire-reader.ts";
import { readEntries } from "./bbolt-file.ts";

const KEY = /\bknownFiles$/;
const LIST_ENTRY = 0x0a;
const METADATA = { offset: 2, attributes: 4 } as const;
const PATH = "log.file.path";
const PART_BYTES = 1 << 20;
/** A file has a fingerprint of 4 KiB, and a path. */
const MAX_FILE_BYTES = 64 * 1024;
const MAX_LENGTH_BYTES = 5;

/**
 * Offsets by path of the file. A path can have several: the collector keeps what it knew of a file before it was truncated or replaced.
 * Undefined if there is no store, or none that can be read now.
 */
export async function readOffsets(store: string): Promise<ReadonlyMap<string, readonly number[]> | undefined> {
  try {
    let value: { readonly at: number; readonly bytes: number } | undefined;
    await readEntries(store, ({ key, valueAt, valueBytes }) => {
      if (KEY.test(key.toString("latin1"))) value = { at: valueAt, bytes: valueBytes };
    });
    if (!value) return undefined;
    await using file = await open(store, "r");
    return await readList(file, value.at, value.at + value.bytes);
  } catch {
    // It does not exist yet, or the collector wrote to it meanwhile.
    return undefined;
  }
}

/** Reads in parts, because a host with many files has many megabytes of fingerprints. Throws if the list has another form. */
async function readList(file: FileHandle, start: number, end: number): Promise<Map<string, number[]>> {
  const offsets = new Map<string, number[]>();
  const part = Buffer.allocUnsafe(Math.min(PART_BYTES, end - start));
  let rest = Buffer.alloc(0);
  for (let at = start; at < end;) {
    const { bytesRead } = await file.read(part, 0, Math.min(part.length, end - at), at);
    if (bytesRead === 0) throw new Error("the store ends within the offsets");
    at += bytesRead;
    const bytes = Buffer.concat([rest, part.subarray(0, bytesRead)]);
    rest = bytes.subarray(readFiles(bytes, offsets));
    if (rest.length > MAX_FILE_BYTES) throw new Error("the offsets have another form");
  }
  if (rest.length > 0) throw new Error("the offsets are incomplete");
  return offsets;
}

/** Reads the files that are complete; returns the offset after them. */
function readFiles(bytes: Buffer, offsets: Map<string, number[]>): number {
  for (let at = 0; ;) {
    if (at < bytes.length && bytes[at] !== LIST_ENTRY) throw new Error("the offsets have another form");
    let length = 0;
    let next = at + 1;
    for (let shift = 0; shift < 7 * MAX_LENGTH_BYTES; shift += 7) {
      const byte = bytes[next];
      if (byte === undefined) return at;
      next += 1;
      length += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    if (next + length > bytes.length) return at;
    addFile(bytes.subarray(next, next + length), offsets);
    at = next + length;
  }
}

function addFile(bytes: Buffer, offsets: Map<string, number[]>): void {
  const reader = new WireReader(bytes);
  // As every number in protobuf, an offset of 0 is omitted.
  let offset = 0;
  let path: unknown;
  reader.message(0, bytes.length, () => {
    if (reader.field === METADATA.offset && reader.wireType === VARINT) offset = reader.integer();
    if (reader.field === METADATA.attributes) path = (JSON.parse(reader.text()) as Record<string, unknown> | null)?.[PATH];
  });
  if (typeof path !== "string") return;
  const list = offsets.get(path);
  if (list) list.push(offset);
  else offsets.set(path, [offset]);
}
