// Keeps V8's heap small. By default V8 lets the old generation grow to four times the size after the last collection, and keeps pages that
// only the start of a thread needed: 70 MB after an hour of small requests. Invariants: the size of the heap is not limited; memory is
// freed once per thread, and not under load, because that collection blocks its thread for about 35 ms or more.
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** By then the first requests have been served, and their code is compiled. */
const AFTER_MS = 3000;
/** A start uses less; more means that there is load. */
const MAX_USED_BYTES = 48 * 1024 * 1024;

/** Percentage of the size after the last full collection. */
const GROWING_PERCENT = 40;

/**
 * Makes V8 collect garbage earlier, mostly on its own threads. Applies to all threads of this process from their next full collection on.
 */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}

/** Frees the heap of the calling thread after some seconds. The timer does not keep the process alive. */
export function freeHeapAfterStart(afterMs = AFTER_MS): void {
  setTimeout(() => {
    if (getHeapStatistics().used_heap_size <= MAX_USED_BYTES) freeHeap();
  }, afterMs).unref();
}

/** Only this kind of collection returns pages immediately, and Node has no other way to request it. */
export function freeHeap(): void {
  // The flag is not reset, because it is global and another thread may be between these two lines.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { type: "major"; flavor: "last-resort"; execution: "sync" }) => void;
  collect({ type: "major", flavor: "last-resort", execution: "sync" });
}
