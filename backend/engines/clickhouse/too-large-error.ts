// The engine's refusal of a result that is too large. A file of its own, because a sandbox process needs the class and not the engine.
import { ApiError } from "../../errors.ts";

export const TOO_EXPENSIVE = "this query takes too much time or memory: ask for a shorter range, add filters, or lower the limit";

/** The rows exceed the bytes or the memory that a query may take: fewer of them may do. */
export class TooLargeError extends ApiError {
  constructor(cause: unknown) {
    super("query_too_expensive", TOO_EXPENSIVE, { cause });
  }
}
