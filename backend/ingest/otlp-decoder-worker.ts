// The thread side of otlp-decoder.ts: one body at a time in, its rows out; memory is handed over, not copied.
import { parentPort } from "node:worker_threads";
import { ApiError } from "../errors.ts";
import { type DecodeAnswer, decodeNow, type DecodeTask } from "./otlp-decoder.ts";

parentPort?.on("message", (task: DecodeTask) => {
  const answer = decodeTask(task);
  const memory = "decoded" in answer ? answer.decoded.sections.map(({ bytes }) => bytes.buffer as ArrayBuffer) : [];
  parentPort?.postMessage(answer, memory);
});

function decodeTask(task: DecodeTask): DecodeAnswer {
  try {
    return { decoded: decodeNow(task) };
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, message: error.message };
    return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
