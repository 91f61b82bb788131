// Cancels a statement in the engine when its client has disconnected. Invariant: the slot of a statement is freed only after the engine has
// ended it, so abandoned statements never pile up.
import { pause } from "../../../common/loop.ts";

const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 1000;

/**
 * Runs `work`. Once `signal` aborts, calls `kill` repeatedly until `work` has settled, because the engine may not know a statement that was
 * just sent. If aborted, rejects with the signal's reason.
 */
export async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>, kill: () => Promise<void>): Promise<T> {
  signal.throwIfAborted();
  const settled = new AbortController();
  const killAll = async (): Promise<void> => {
    for (let waitMs = FIRST_PAUSE_MS; !settled.signal.aborted; waitMs = Math.min(2 * waitMs, MAX_PAUSE_MS)) {
      // A failed kill is retried; in any case, the statement's own time limit ends it.
      await kill().catch(() => undefined);
      await pause(waitMs, settled.signal);
    }
  };
  const onAbort = () => void killAll();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    settled.abort();
    signal.removeEventListener("abort", onAbort);
  }
}
