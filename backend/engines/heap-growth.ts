// How much garbage may grow old before V8 collects the whole heap. By itself V8 waits until the old generation is up to four times what
// the last collection left: after an hour of small requests that is 70 MB which nobody needs. Invariant: a bound of the heap's size it is
// not, so whatever is needed may live; collections come oftener, most of their work on V8's own threads.
import { setFlagsFromString } from "node:v8";

/** Of what the last full collection left. */
const GROWING_PERCENT = 40;

/** Of every thread of this process, from its next full collection on. */
export function boundHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}
