// What the embedded engine may keep of what it has read: by itself up to 5 GiB of marks alone, whatever the container may use. Invariant:
// its caches together are at most a sixteenth of what this process may use, but never so small that a query reads its marks twice.
import { totalmem } from "node:os";

const MIB = 1024 * 1024;
const LEAST_BYTES = 8 * MIB;
/** Parts of the memory limit. Primary keys are held by the parts themselves, and columns are not cached at all. */
const PARTS = {
  // Of the columns, 24 bytes for each 2,048 rows before they are compressed.
  mark_cache_size: 1 / 64,
  index_mark_cache_size: 1 / 128,
  query_condition_cache_size: 1 / 128,
  compiled_expression_cache_size: 1 / 128,
};

/** What this process may use: its container's limit (cgroup v1 or v2), the machine's memory where there is none. */
export function memoryLimitBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/** As the engine takes them at its start. */
export function cacheArguments(limitBytes: number): string[] {
  return Object.entries(PARTS).map(([name, part]) => `--${name}=${Math.max(LEAST_BYTES, Math.floor(limitBytes * part))}`);
}
