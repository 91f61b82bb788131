// Builds files of bbolt, the store below the collector's queues: one with a single entry whose value takes 600 pages, one of a disk queue,
// and one whose bucket is small.

export const PAGE = 4096;
/** Pages of the single value; more than one read returns. */
export const VALUE_PAGES = 600;

/** Two meta pages, the root bucket on page 2, and its one bucket on page 3, with a value that fills the pages after it. */
export function store(key = "k"): Buffer {
  const bytes = withHeadPages(4 + VALUE_PAGES);
  leaf(bytes, 3, VALUE_PAGES, { isBucket: false, valueBytes: VALUE_PAGES * PAGE }, key);
  return bytes;
}

/** A disk queue with these entries, in the order of their keys, and `freePages` after them. */
export function queueStore(entries: readonly (readonly [string, Buffer])[], freePages = 0): Buffer {
  const size = entries.reduce((sum, [key, value]) => sum + 16 + key.length + value.length, 16);
  const overflow = Math.ceil(size / PAGE) - 1;
  const bytes = withHeadPages(4 + overflow + freePages);
  const page = bytes.subarray(3 * PAGE);
  page.writeBigUInt64LE(3n, 0);
  page.writeUInt16LE(2, 8);
  page.writeUInt16LE(entries.length, 10);
  page.writeUInt32LE(overflow, 12);
  let data = 16 + entries.length * 16;
  for (const [i, [key, value]] of entries.entries()) {
    const element = 16 + i * 16;
    page.writeUInt32LE(data - element, element + 4);
    page.writeUInt32LE(key.length, element + 8);
    page.writeUInt32LE(value.length, element + 12);
    page.write(key, data);
    value.copy(page, data + key.length);
    data += key.length + value.length;
  }
  return bytes;
}

/** The bucket has one entry, and bbolt stores its page in the entry of the root bucket: no page of the file is its own. */
export function smallStore(key: string, value: string): Buffer {
  const bytes = withHeadPages(3);
  const bucket = leaf(bytes, 2, 0, { isBucket: true, valueBytes: 48 + key.length + value.length }, "default");
  bucket.writeBigUInt64LE(0n, 0);
  leaf(bucket.subarray(16), 0, 0, { isBucket: false, valueBytes: value.length }, key).write(value);
  return bytes;
}

/** Two meta pages, and the root bucket on page 2 with one bucket on page 3. */
function withHeadPages(pages: number): Buffer {
  const bytes = Buffer.alloc(pages * PAGE);
  for (const page of [0, 1]) {
    const meta = bytes.subarray(page * PAGE + 16);
    meta.writeUInt32LE(0xed0cdaed, 0);
    meta.writeUInt32LE(2, 4);
    meta.writeUInt32LE(PAGE, 8);
    meta.writeBigUInt64LE(2n, 16);
    meta.writeBigUInt64LE(BigInt(pages), 40);
    meta.writeBigUInt64LE(BigInt(page), 48);
    let hash = 0xcbf29ce484222325n;
    for (const byte of meta.subarray(0, 56)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
    meta.writeBigUInt64LE(hash, 56);
  }
  const root = leaf(bytes, 2, 0, { isBucket: true, valueBytes: 16 }, "default");
  root.writeBigUInt64LE(3n, 0);
  return bytes;
}

/** Returns the page of one entry and the value. */
function leaf(bytes: Buffer, id: number, overflow: number, entry: { isBucket: boolean; valueBytes: number }, key: string): Buffer {
  const page = bytes.subarray(id * PAGE);
  page.writeBigUInt64LE(BigInt(id), 0);
  page.writeUInt16LE(2, 8);
  page.writeUInt16LE(1, 10);
  page.writeUInt32LE(overflow, 12);
  page.writeUInt32LE(entry.isBucket ? 1 : 0, 16);
  page.writeUInt32LE(16, 20);
  page.writeUInt32LE(key.length, 24);
  page.writeUInt32LE(entry.valueBytes, 28);
  page.write(key, 32);
  return page.subarray(32 + key.length);
}
