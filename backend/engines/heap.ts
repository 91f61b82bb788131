// Keeps V8's heap small. By default V8 lets the old generation grow to four times the size after the last collection, and keeps pages that
// only a start or a load needed: 70 MB after an hour of small requests. Invariants: the size of the heap is not limited; a thread frees its
// heap only while it is idle, because that collection blocks it for 35 ms after a start and for about 110 ms after a load.
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { performance } from "node:perf_hooks";
import { runInNewContext } from "node:vm";

/** By the first check, a start is over and the first requests have been served. */
const FIRST_CHECK_MS = 3000;
const CHECK_MS = 30_000;
/** A thread that was busy for less of the time since the last check is idle. */
const IDLE_UTILIZATION = 0.05;
/** Freeing less is not worth the pause. */
const WORTHWHILE_BYTES = 24 * 1024 * 1024;
const MIN_INTERVAL_MS = 120_000;

/** Percentage of the size after the last full collection. 40 cost 8 % of the CPU time of small requests, and saved less than 30 MB. */
const GROWING_PERCENT = 100;

/** Makes V8 collect garbage earlier, mostly on its own threads: in all threads of this process, from their next full collection on. */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}

/**
 * Frees the heap of the calling thread a few seconds from now and after each later load, as soon as the thread is idle. The timers do not
 * keep the process alive.
 */
export function freeHeapWhenIdle({
  firstMs = FIRST_CHECK_MS,
  everyMs = CHECK_MS,
  minIntervalMs = MIN_INTERVAL_MS,
  minBytes = WORTHWHILE_BYTES,
} = {}): void {
  let lastCheck = performance.eventLoopUtilization();
  let freed = { atMs: Number.NEGATIVE_INFINITY, heapBytes: -minBytes };
  const check = (): void => {
    const { utilization } = performance.eventLoopUtilization(lastCheck);
    lastCheck = performance.eventLoopUtilization();
    if (utilization > IDLE_UTILIZATION || performance.now() - freed.atMs < minIntervalMs) return;
    if (getHeapStatistics().total_physical_size - freed.heapBytes < minBytes) return;
    freeHeap();
    freed = { atMs: performance.now(), heapBytes: getHeapStatistics().total_physical_size };
  };
  setTimeout(check, firstMs).unref();
  setInterval(check, everyMs).unref();
}

/** Only this kind of collection returns pages immediately, and Node has no other way to request it. */
function freeHeap(): void {
  // The flag is not reset, because it is global and another thread may be between these two lines.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { type: "major"; flavor: "last-resort"; execution: "sync" }) => void;
  collect({ type: "major", flavor: "last-resort", execution: "sync" });
}
