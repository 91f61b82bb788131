// The thread side of otlp-decoder.ts: one body at a time in; what its rows need is asked for before they are made; rows out. Memory is
// handed over, not copied, and what is used up is given back at once. Large bodies leave the processor to whoever serves everybody.
import { getPriority, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { ApiError } from "../errors.ts";
import { freeBuffer } from "../../agent/common/free-buffer.ts";
import { type DecodeTask, judge, type Judged } from "./decode-body.ts";
import type { DecodeAnswer, Go } from "./otlp-decoder.ts";

const NICER = 5;

let waiting: { task: DecodeTask; judged: Judged } | undefined;

// Of this thread alone; elsewhere it would be the whole process.
if (process.platform === "linux") setPriority(Math.min(19, getPriority() + NICER));
parentPort?.on("message", (message: DecodeTask | Go) => {
  const answer = "go" in message ? decode(message) : need(message);
  const memory = "decoded" in answer ? answer.decoded.sections.map(({ bytes }) => bytes.buffer as ArrayBuffer) : [];
  parentPort?.postMessage(answer, memory);
});

function need(task: DecodeTask): DecodeAnswer {
  return answering(task, () => {
    const judged = judge(task);
    waiting = { task, judged };
    return { neededBytes: judged.neededBytes };
  });
}

function decode({ go }: Go): DecodeAnswer {
  if (!waiting) return { failure: "told to go on with nothing" };
  const { task, judged } = waiting;
  waiting = undefined;
  return answering(task, () => {
    const answer: DecodeAnswer = go ? { decoded: judged.rows() } : { stopped: true };
    freeBuffer(task.body);
    return answer;
  });
}

function answering({ body }: DecodeTask, work: () => DecodeAnswer): DecodeAnswer {
  try {
    return work();
  } catch (error) {
    freeBuffer(body);
    if (error instanceof ApiError) return { code: error.code, message: error.message };
    return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
