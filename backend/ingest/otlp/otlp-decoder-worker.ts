// The thread side of otlp-decoder.ts. It handles one request body at a time, requests the memory for its rows before it builds them, and returns
// the rows. Buffers are transferred, not copied, and freed immediately. The thread has a lower priority than the event loop that serves
// requests.
import { jobError } from "./thread-pool.ts";
import { getPriority, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { freeBuffer } from "../../../common/http.ts";
import { asJson, type DecodeTask, KERNEL_LIMITS, validateBody, type ValidatedBody, validateFast } from "./decode-body.ts";
import type { DecodeAnswer, Go } from "./otlp-decoder.ts";

const NICER = 5;

let waiting: { task: DecodeTask; validated: ValidatedBody } | undefined;

// On Linux this sets the priority of the thread; elsewhere it would affect the whole process.
if (process.platform === "linux") setPriority(Math.min(19, getPriority() + NICER));
parentPort?.on("message", (message: DecodeTask | Go) => {
  const answer = "go" in message ? decode(message) : need(message);
  const memory = "decoded" in answer ? answer.decoded.sections.map(({ bytes }) => bytes.buffer as ArrayBuffer) : [];
  parentPort?.postMessage(answer, memory);
});

function need(received: DecodeTask): DecodeAnswer {
  return answering(received, () => {
    const fast = received.encoding === undefined ? undefined : validateFast(received, KERNEL_LIMITS);
    if (fast) {
      waiting = { task: received, validated: fast };
      return { neededBytes: fast.neededBytes };
    }
    const task = asJson(received);
    const jsonBytes = task.body === received.body ? 0 : task.body.byteLength;
    if (jsonBytes > 0) freeBuffer(received.body);
    const validated = validateBody(task);
    waiting = { task, validated };
    return { neededBytes: validated.neededBytes + jsonBytes };
  });
}

function decode({ go }: Go): DecodeAnswer {
  if (!waiting) return { failure: "go without a task" };
  const { task, validated } = waiting;
  waiting = undefined;
  return answering(task, () => {
    const answer: DecodeAnswer = go ? { decoded: validated.rows() } : { stopped: true };
    freeBuffer(task.body);
    return answer;
  });
}

function answering({ body }: DecodeTask, work: () => DecodeAnswer): DecodeAnswer {
  try {
    return work();
  } catch (error) {
    freeBuffer(body);
    return jobError(error);
  }
}
