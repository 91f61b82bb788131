// The thread side of otlp-decoder.ts. It handles one request body at a time, requests the memory for its rows before it builds them, and returns
// the rows. Buffers are transferred, not copied, and freed immediately. The thread has a lower priority than the event loop.
import { jobError } from "./thread-pool.ts";
import { getPriority, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { freeBuffer } from "../../../common/http.ts";
import { asJson, type DecodeTask, KERNEL_LIMITS, validateBody, type ValidatedBody, validateFast } from "./decode-body.ts";
import type { DecodeAnswer, MemoryReply } from "./otlp-decoder.ts";

const NICER = 5;

/** The body that is waiting for memory for its rows. */
let pending: { task: DecodeTask; validated: ValidatedBody } | undefined;

// On Linux this sets the priority of the thread; elsewhere it would affect the whole process.
if (process.platform === "linux") setPriority(Math.min(19, getPriority() + NICER));
parentPort?.on("message", (message: DecodeTask | MemoryReply) => {
  const answer = "isReserved" in message ? decode(message) : validate(message);
  const buffers = "decoded" in answer ? answer.decoded.sections.map(({ bytes }) => bytes.buffer as ArrayBuffer) : [];
  parentPort?.postMessage(answer, buffers);
});

/** Returns the memory that the rows of the body need. */
function validate(received: DecodeTask): DecodeAnswer {
  return catchJobError(received, () => {
    const fast = received.encoding === undefined ? undefined : validateFast(received, KERNEL_LIMITS);
    if (fast) {
      pending = { task: received, validated: fast };
      return { neededBytes: fast.neededBytes };
    }
    const task = asJson(received);
    const jsonBytes = task.body === received.body ? 0 : task.body.byteLength;
    if (jsonBytes > 0) freeBuffer(received.body);
    const validated = validateBody(task);
    pending = { task, validated };
    return { neededBytes: validated.neededBytes + jsonBytes };
  });
}

function decode({ isReserved }: MemoryReply): DecodeAnswer {
  if (!pending) return { failure: "memory was reserved without a task" };
  const { task, validated } = pending;
  pending = undefined;
  return catchJobError(task, () => {
    const answer: DecodeAnswer = isReserved ? { decoded: validated.rows() } : { stopped: true };
    freeBuffer(task.body);
    return answer;
  });
}

function catchJobError({ body }: DecodeTask, work: () => DecodeAnswer): DecodeAnswer {
  try {
    return work();
  } catch (error) {
    freeBuffer(body);
    return jobError(error);
  }
}
