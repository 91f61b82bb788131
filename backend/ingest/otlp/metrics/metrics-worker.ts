// The thread side of metrics-threads.ts: converts one body at a time. Buffers are transferred, not copied.
import { parentPort } from "node:worker_threads";
import { ApiError } from "../../../errors.ts";
import { convertMetrics, type MetricsTask } from "./convert-metrics.ts";
import type { MetricsAnswer } from "./metrics-threads.ts";

parentPort?.on("message", (task: MetricsTask) => {
  const answer = convert(task);
  const memory = "converted" in answer ? answer.converted.texts.map((text) => text.buffer) : [];
  parentPort?.postMessage(answer, memory);
});

function convert(task: MetricsTask): MetricsAnswer {
  try {
    return { converted: convertMetrics(task) };
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, message: error.message };
    return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
