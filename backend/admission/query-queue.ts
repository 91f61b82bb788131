// Runs a tenant's query in a fair queue and maps the queue's errors to API errors. Invariants: when the process stops, waiting queries are
// refused immediately and running queries may finish, so a stop never waits for a queue; a query ends when its client leaves or its slot is
// taken back.
import { ApiError } from "../errors.ts";
import { type FairQueue, QueueFullError } from "./fair-queue.ts";
import type { LabelLimits } from "./limited-labels.ts";

export interface QueryOptions {
  /** Limits the query to what its reader may see; undefined: all of the organisation. Required, so that no query loses it. */
  readonly labelLimits: LabelLimits | undefined;
  /** Aborts when the client no longer waits for the result. */
  readonly signal?: AbortSignal;
  /** Called when the query is about to start; throws to refuse it. */
  readonly admit?: () => void;
  /** Called if the result lacks the rows of an unavailable shard. Without this callback, such a query fails. */
  readonly onPartial?: (() => void) | undefined;
}

/** For queries of the backend itself. */
export const UNLIMITED: QueryOptions = { labelLimits: undefined };

const RETRY_AFTER_S = 5;

/** Throws ApiError too_many_queries, `unavailable` while the process stops, and the reason of a signal that aborts before the start. */
export async function runQueued<T>(
  { queue, stopping }: { queue: FairQueue; stopping: AbortSignal | undefined },
  orgId: string,
  { signal, admit }: Pick<QueryOptions, "signal" | "admit">,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const signals = [stopping, signal].filter((each) => each !== undefined);
  let began = false;
  try {
    return await queue.run(orgId, AbortSignal.any(signals), (takenBack) => {
      began = true;
      admit?.();
      return work(signal ? AbortSignal.any([signal, takenBack]) : takenBack);
    });
  } catch (error) {
    if (error instanceof QueueFullError) {
      const message = "too many queries of this organisation are running or waiting; retry when some have finished";
      throw new ApiError("too_many_queries", message, { cause: error, retryAfterS: RETRY_AFTER_S });
    }
    if (!began && stopping?.aborted)
      throw new ApiError("unavailable", "the backend is stopping; try again", { retryAfterS: RETRY_AFTER_S });
    throw error;
  }
}
