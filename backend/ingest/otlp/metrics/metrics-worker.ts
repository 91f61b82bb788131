// The thread side of metrics-threads.ts: does one job at a time. Buffers are transferred, not copied.
import { jobError } from "../thread-pool.ts";
import { parentPort } from "node:worker_threads";
import { checkSlowPath, checkWrite, type WriteTask } from "../../remote-write/check-write.ts";
import { convertMetrics, type MetricsTask } from "./convert-metrics.ts";
import type { MetricsAnswer } from "./metrics-threads.ts";

parentPort?.on("message", (task: MetricsTask | WriteTask) => {
  const answer = run(task);
  parentPort?.postMessage(answer, buffersOf(answer));
});

function run(task: MetricsTask | WriteTask): MetricsAnswer {
  try {
    if (!("version" in task)) return { converted: convertMetrics(task) };
    return { checked: task.isTried ? checkSlowPath(task) : checkWrite(task) };
  } catch (error) {
    return jobError(error);
  }
}

function buffersOf(answer: MetricsAnswer): ArrayBuffer[] {
  if ("converted" in answer) return answer.converted.texts.map((text) => text.buffer);
  if ("checked" in answer) return [...answer.checked.bodies, answer.checked.seriesHashes].map(({ buffer }) => buffer);
  return [];
}
