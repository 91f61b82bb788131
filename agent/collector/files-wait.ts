// Whether a collector may be asked to end. Invariant: one whose files wait for a full queue may not: it would drop the lines in its hands and
// remember them as read. It is killed instead; what it then reads again is known by the proxy (agent/reread).
import { ask } from "../../common/ask.ts";
import { FILES_EXPORTER } from "./config.ts";

/** A batch of a file is at most 100 lines; one larger than the rest of the queue is not expected. */
const FULL_QUEUE = 0.8;
export const ASK_WITHIN_MS = 1_000;

/** True when the queue of the files has no room for another batch, as far as can be told from the collector's own metrics. */
export async function filesWait(metricsUrl: string): Promise<boolean> {
  try {
    const { text } = await ask(metricsUrl, { signal: AbortSignal.timeout(ASK_WITHIN_MS) });
    const value = (name: string): number =>
      Number(
        text
          .split("\n")
          .find((line) => line.startsWith(`otelcol_exporter_queue_${name}{`) && line.includes(`"${FILES_EXPORTER}"`))
          ?.split(" ")[1],
      );
    return value("size") > value("capacity") * FULL_QUEUE;
  } catch {
    // Safe: a collector that does not answer is not reading either.
    return false;
  }
}
