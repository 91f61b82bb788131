// How old knowledge is, whatever happens to the clock. Invariant: it never runs slower than the wall clock or the machine's steady one: a
// clock that is set makes everything older, never younger, and so does a machine that slept, whose steady clock stood still meanwhile.
/** Below that it is the difference of two readings, or a clock that is being slewed: counted, and not yet kept. */
const STEP_MS = 100;

/** Answers milliseconds since no particular time: only their differences mean something. */
export function ageClock(wallMs: () => number = Date.now, steadyMs: () => number = () => performance.now()): () => number {
  let offsetMs = wallMs() - steadyMs();
  let steppedMs = 0;
  return () => {
    const steady = steadyMs();
    const offset = wallMs() - steady;
    const apartMs = Math.abs(offset - offsetMs);
    if (apartMs < STEP_MS) return steady + steppedMs + apartMs;
    steppedMs += apartMs;
    offsetMs = offset;
    return steady + steppedMs;
  };
}
