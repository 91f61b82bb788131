// Decodes a body on the calling thread, for tests and benchmarks, with the body hash of its context.
import { type DecodeTask, validateBody } from "./decode-body.ts";
import type { DecodedBody, RowContext } from "./rows.ts";

interface HashedTask extends DecodeTask {
  readonly context: RowContext;
}

export function decodeWithHash(task: HashedTask): DecodedBody {
  return validateBody({ ...task, bodyHash: task.context.bodyHash }).rows();
}

/** The same without the kernel. */
export function decodeSlowPath(task: HashedTask): DecodedBody {
  return validateBody({ ...task, bodyHash: task.context.bodyHash }, { maxBodyBytes: -1, maxRowsBytes: 0 }).rows();
}
