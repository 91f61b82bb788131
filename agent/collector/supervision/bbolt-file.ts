// Checks whether bbolt, the store of the collector's queues and checkpoints, can use a file. It reads the meta pages and every page reachable
// from them, as bbolt does (go.etcd.io/bbolt v1.4: db.go, tx_check.go, internal/common), including all values, because the collector copies
// them when it starts. bbolt has no checksums over data, so neither bbolt nor this check detects changed bytes inside a record. Invariants:
// it never writes; it terminates for any content.
import { type FileHandle, open } from "node:fs/promises";

const PAGE_HEAD = 16;
const ELEMENT = 16;
/** A bucket entry begins with this header; a small bucket's page follows it. */
const BUCKET_HEAD = 16;
const META = { magic: 0xed0cdaed, version: 2, bytes: 64, checksummed: 56 };
const BRANCH = 1;
const LEAF = 2;
const BUCKET_ENTRY = 1;
/** Values are read in parts of this size. */
const PART = 1 << 20;
/** Possible page sizes: bbolt looks for the second meta page at 1 KiB to 16 MiB. */
const PAGE_SIZES = Array.from({ length: 15 }, (_, i) => 1024 << i);

interface Meta {
  readonly pageSize: number;
  readonly root: number;
  /** Number of pages. */
  readonly end: number;
  readonly transaction: bigint;
}

/** Keys of a page are at least `from` and less than `to`. */
interface Visit {
  readonly page: number;
  readonly from: Buffer | undefined;
  readonly to: Buffer | undefined;
  readonly isRoot: boolean;
}

class Damage extends Error {}

/**
 * Returns a description of the damage; undefined if bbolt can use the file, which includes an empty file. An I/O error of the disk (EIO)
 * counts as damage. Throws other read errors, and the reason of `signal` soon after it aborts.
 */
export async function findDamage(path: string, signal?: AbortSignal): Promise<string | undefined> {
  return walkFile(path, { signal });
}

/** A key with a value; buckets are not entries. */
export interface Entry {
  readonly key: Buffer;
  /** Offset of the value in the file. */
  readonly valueAt: number;
  readonly valueBytes: number;
}

export interface PageUse {
  readonly pageBytes: number;
  /** Pages in use; the others below `endPage` are free. */
  readonly used: ReadonlySet<number>;
  /** The first page that no transaction has allocated yet. */
  readonly endPage: number;
  /** Bytes of the largest page with its overflow. */
  readonly largestBytes: number;
}

/** Calls `onEntry` for each entry without reading values. Undefined for an empty or damaged file. Throws as `findDamage` does. */
export async function readEntries(path: string, onEntry: (entry: Entry) => void): Promise<PageUse | undefined> {
  let use: PageUse | undefined;
  const damage = await walkFile(path, { onEntry, onEnd: (pages) => (use = pages) });
  return damage === undefined ? use : undefined;
}

interface WalkOptions {
  readonly signal?: AbortSignal | undefined;
  /** If set, values are not read. */
  readonly onEntry?: (entry: Entry) => void;
  readonly onEnd?: (use: PageUse) => void;
}

/** Visits all pages. Returns the damage that prevented it; undefined if there was none. */
async function walkFile(path: string, options: WalkOptions): Promise<string | undefined> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (size === 0) return undefined;
    const pages = await new Walk(file, size, await readMeta(file, size), options).run();
    options.onEnd?.(pages);
    return undefined;
  } catch (error) {
    if (error instanceof Damage) return error.message;
    if ((error as NodeJS.ErrnoException).code === "EIO") return "reading it failed with EIO";
    throw error;
  } finally {
    await file.close();
  }
}

async function readMeta(file: FileHandle, size: number): Promise<Meta> {
  const first = parseMeta(await read(file, 0, PAGE_HEAD + META.bytes));
  const secondOffsets = first ? [first.pageSize] : PAGE_SIZES.filter((at) => at < size - 1024);
  let meta = first;
  for (const at of secondOffsets) {
    const second = parseMeta(await read(file, at, PAGE_HEAD + META.bytes));
    if (second && (!meta || second.transaction > meta.transaction)) meta = second;
    if (!first && second) break;
  }
  if (!meta) throw new Damage("neither of its two meta pages is valid");
  if (size < 2 * meta.pageSize) throw new Damage(`it ends after ${size} bytes, within its meta pages`);
  return meta;
}

function parseMeta(page: Buffer): Meta | undefined {
  const meta = page.subarray(PAGE_HEAD);
  if (meta.length < META.bytes || meta.readUInt32LE(0) !== META.magic || meta.readUInt32LE(4) !== META.version) return undefined;
  if (meta.readBigUInt64LE(META.checksummed) !== fnv64a(meta.subarray(0, META.checksummed))) return undefined;
  const number = (at: number): number => Number(meta.readBigUInt64LE(at));
  return { pageSize: meta.readUInt32LE(8), root: number(16), end: number(40), transaction: meta.readBigUInt64LE(48) };
}

function fnv64a(bytes: Buffer): bigint {
  return bytes.reduce((hash, byte) => BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n), 0xcbf29ce484222325n);
}

/** Returns fewer bytes only at the end of the file. A single read also ends before a bad sector, and the next one fails. */
async function read(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(buffer, done, length - done, at + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return buffer.subarray(0, done);
}

/** Visits every page of every bucket once. */
class Walk {
  readonly #file: FileHandle;
  readonly #size: number;
  readonly #meta: Meta;
  readonly #seen = new Set<number>();
  readonly #pending: Visit[] = [];
  readonly #options: WalkOptions;
  #largestBytes = 0;

  constructor(file: FileHandle, size: number, meta: Meta, options: WalkOptions) {
    this.#file = file;
    this.#size = size;
    this.#meta = meta;
    this.#options = options;
    this.#pending.push({ page: meta.root, from: undefined, to: undefined, isRoot: true });
  }

  async run(): Promise<PageUse> {
    for (let visit = this.#pending.pop(); visit; visit = this.#pending.pop()) await this.#visit(visit);
    const { pageSize, end } = this.#meta;
    return { pageBytes: pageSize, used: this.#seen, endPage: end, largestBytes: this.#largestBytes };
  }

  async #visit(visit: Visit): Promise<void> {
    const { pageSize, end } = this.#meta;
    const { page } = visit;
    if (page < 2 || page >= end) throw new Damage(`it refers to page ${page}, which does not exist`);
    const at = page * pageSize;
    const bytes = await this.#read(at, pageSize);
    if (bytes.length < pageSize) throw new Damage(`it ends before page ${page}`);
    const [flags, count, overflow] = [bytes.readUInt16LE(8), bytes.readUInt16LE(10), bytes.readUInt32LE(12)];
    if (bytes.readBigUInt64LE(0) !== BigInt(page) || (flags !== BRANCH && flags !== LEAF)) throw new Damage(`page ${page} is overwritten`);
    if (page + overflow >= end) throw new Damage(`page ${page} extends beyond the last page`);
    const length = (overflow + 1) * pageSize;
    if (at + length > this.#size) throw new Damage(`it ends within page ${page}`);
    this.#markUsed(page, overflow);
    this.#largestBytes = Math.max(this.#largestBytes, length);
    const readUntil = this.#options.onEntry ? at : at + length;
    for (let from = at + pageSize; from < readUntil; from += PART) await this.#read(from, Math.min(PART, readUntil - from));
    await this.#visitElements(visit, flags, count, at, length, bytes);
  }

  async #read(at: number, length: number): Promise<Buffer> {
    this.#options.signal?.throwIfAborted();
    return read(this.#file, at, length);
  }

  #markUsed(page: number, overflow: number): void {
    for (let id = page; id <= page + overflow; id++) {
      if (this.#seen.has(id)) throw new Damage(`page ${id} is used twice`);
      this.#seen.add(id);
    }
  }

  async #visitElements(visit: Visit, flags: number, count: number, at: number, length: number, head: Buffer): Promise<void> {
    if (PAGE_HEAD + count * ELEMENT > length) throw new Damage(`page ${visit.page} is overwritten`);
    const table = PAGE_HEAD + count * ELEMENT > head.length ? await this.#read(at, PAGE_HEAD + count * ELEMENT) : head;
    const bytes = async (from: number, size: number): Promise<Buffer> =>
      from + size <= head.length ? head.subarray(from, from + size) : this.#read(at + from, size);
    let last: { key: Buffer; child: number } | undefined;
    if (flags === BRANCH && count === 0) throw new Damage(`page ${visit.page} is overwritten`);
    for (let i = 0; i < count; i++) {
      const element = PAGE_HEAD + i * ELEMENT;
      const isLeaf = flags === LEAF;
      const position = element + table.readUInt32LE(element + (isLeaf ? 4 : 0));
      const keySize = table.readUInt32LE(element + (isLeaf ? 8 : 4));
      const valueSize = isLeaf ? table.readUInt32LE(element + 12) : 0;
      if (keySize === 0 || keySize > 32_768 || position + keySize + valueSize > length)
        throw new Damage(`entry ${i} of page ${visit.page} is overwritten`);
      const key = Buffer.from(await bytes(position, keySize));
      const isInOrder = last ? last.key.compare(key) < 0 : !visit.from || visit.from.compare(key) <= 0;
      if (!isInOrder || (visit.to && key.compare(visit.to) >= 0)) throw new Damage(`the keys of page ${visit.page} are out of order`);
      if (isLeaf) {
        const isBucket = (table.readUInt32LE(element) & BUCKET_ENTRY) !== 0;
        if (visit.isRoot && !isBucket) throw new Damage(`entry ${i} of page ${visit.page} is overwritten`);
        const valueAt = at + position + keySize;
        if (isBucket) this.#visitBucket(visit.page, await bytes(position + keySize, Math.min(valueSize, this.#meta.pageSize)), valueAt);
        else this.#options.onEntry?.({ key, valueAt, valueBytes: valueSize });
      } else if (last) this.#pending.push({ page: last.child, from: last.key, to: key, isRoot: visit.isRoot });
      last = { key, child: isLeaf ? 0 : Number(table.readBigUInt64LE(element + 8)) };
    }
    if (flags === BRANCH && last) this.#pending.push({ page: last.child, from: last.key, to: visit.to, isRoot: visit.isRoot });
  }

  /** A small bucket, whose first page is 0, is stored in the entry itself. */
  #visitBucket(page: number, entry: Buffer, entryAt: number): void {
    if (entry.length < PAGE_HEAD) throw new Damage(`an entry of page ${page} is overwritten`);
    const root = Number(entry.readBigUInt64LE(0));
    if (root !== 0) this.#pending.push({ page: root, from: undefined, to: undefined, isRoot: false });
    else this.#visitSmallBucket(page, entry.subarray(BUCKET_HEAD), entryAt + BUCKET_HEAD);
  }

  #visitSmallBucket(page: number, leaf: Buffer, leafAt: number): void {
    const count = leaf.length < PAGE_HEAD ? Number.POSITIVE_INFINITY : leaf.readUInt16LE(10);
    if (PAGE_HEAD + count * ELEMENT > leaf.length) throw new Damage(`an entry of page ${page} is overwritten`);
    for (let at = PAGE_HEAD; at < PAGE_HEAD + count * ELEMENT; at += ELEMENT) {
      const [from, keySize, valueSize] = [at + leaf.readUInt32LE(at + 4), leaf.readUInt32LE(at + 8), leaf.readUInt32LE(at + 12)];
      if (keySize === 0 || from + keySize + valueSize > leaf.length) throw new Damage(`an entry of page ${page} is overwritten`);
      this.#options.onEntry?.({ key: leaf.subarray(from, from + keySize), valueAt: leafAt + from + keySize, valueBytes: valueSize });
    }
  }
}
