// Gives back what only the start of a thread has needed: V8 keeps the pages of a young generation that has grown, and of what was garbage
// since, until memory is short. Invariants: once a thread; nothing is collected while there is load, because such a collection holds its
// thread up by some 35 ms, and by more where there is more.
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** After the first requests have been served, and what they need is compiled. */
const AFTER_MS = 3000;
/** A start alone has less: more is load. */
const MOST_USED_BYTES = 48 * 1024 * 1024;

/** Of the thread that calls it, some seconds later. Keeps no process alive. */
export function freeHeapAfterStart(afterMs = AFTER_MS): void {
  setTimeout(() => {
    if (getHeapStatistics().used_heap_size <= MOST_USED_BYTES) freeHeap();
  }, afterMs).unref();
}

/** No other collection gives pages back at once; Node has no other way to ask for it. */
export function freeHeap(): void {
  // For the process, and not taken back: another thread may be between these two lines.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { type: "major"; flavor: "last-resort"; execution: "sync" }) => void;
  collect({ type: "major", flavor: "last-resort", execution: "sync" });
}
