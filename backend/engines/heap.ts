// Keeps V8's heap small. By itself V8 lets the old generation grow to four times the size that the last collection left, and keeps pages that
// only the start of a thread needed: after an hour of small requests, 70 MB that are not needed. Invariants: the size of the heap is not
// limited; memory is freed once per thread, and not under load, because that collection blocks its thread for some 35 ms or more.
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** By then the first requests have been served, and their code is compiled. */
const AFTER_MS = 3000;
/** A start alone uses less; more means load. */
const MAX_USED_BYTES = 48 * 1024 * 1024;

/** In percent of what the last full collection left. */
const GROWING_PERCENT = 40;

/** Makes V8 collect earlier, mostly on its own threads, for every thread of this process from its next full collection on. */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}

/** Frees the heap of the calling thread some seconds later. The timer does not keep the process alive. */
export function freeHeapAfterStart(afterMs = AFTER_MS): void {
  setTimeout(() => {
    if (getHeapStatistics().used_heap_size <= MAX_USED_BYTES) freeHeap();
  }, afterMs).unref();
}

/** Only this collection returns pages at once, and Node has no other way to request it. */
export function freeHeap(): void {
  // The flag is not reset, because it is global and another thread may be between these two lines.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { type: "major"; flavor: "last-resort"; execution: "sync" }) => void;
  collect({ type: "major", flavor: "last-resort", execution: "sync" });
}
