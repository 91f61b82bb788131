// A tenant's query in its turn, with the answers for those who do not get one. Invariant: what waits when the process stops is refused
// at once, so that a stop waits for no queue; what runs may finish.
import { ApiError } from "../errors.ts";
import { type FairTurns, QueueFullError } from "./fair-turns.ts";

export interface QueryOptions {
  /** Aborts when nobody waits for the answer any more. */
  readonly signal?: AbortSignal;
  /** Asked when it is this query's turn; throws to refuse it. */
  readonly admit?: () => void;
}

const RETRY_AFTER_S = 5;

/** Throws ApiError too_many_queries, unavailable when stopping, and the signal's reason when it aborts before the turn. */
export async function inTurn<T>(
  { turns, stopping }: { turns: FairTurns; stopping: AbortSignal | undefined },
  orgId: string,
  { signal, admit }: QueryOptions,
  work: () => Promise<T>,
): Promise<T> {
  const [stopped, gone] = [stopping, signal].map((one) => one ?? new AbortController().signal) as [AbortSignal, AbortSignal];
  let began = false;
  try {
    return await turns.run(orgId, AbortSignal.any([stopped, gone]), () => {
      began = true;
      admit?.();
      return work();
    });
  } catch (error) {
    if (error instanceof QueueFullError) {
      const message = "this organisation has too many queries under way and waiting; send it again when some have ended";
      throw new ApiError("too_many_queries", message, { cause: error, retryAfterS: RETRY_AFTER_S });
    }
    if (!began && stopped.aborted) throw new ApiError("unavailable", "the backend is stopping; try again", { retryAfterS: RETRY_AFTER_S });
    throw error;
  }
}
