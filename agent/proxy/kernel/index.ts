// The functions that the host (agent/proxy/fast-exposition.ts) calls to convert OTLP/JSON metrics to lines of exposition text, which it
// receives while the kernel runs. Unusual input ends a call by an exception of the host; if it is within a metric, the host writes that
// metric's lines, and `resume` continues after it.
import { readDocument, readOn, skipMetric } from "./document";
import { isFull, hasRoom } from "./dictionary";
import { startHistograms } from "./histogram";
import { forget, resourceAt, resourceLength, startLabels } from "./labels";
import { metricAt, metricText, resourceNumber } from "./document";
import { GUARD, INPUT } from "./memory";
import { addHostText, cutTo, flushAll, startOutput, textBytes } from "./output";
import { setLastTime } from "./points";

export { forget };

/** Address where the host writes the body. */
export function inputAt(): usize {
  return INPUT;
}

/** Reads a body of `length` bytes of UTF-8. */
export function read(length: u32): void {
  memory.fill(INPUT + length, 0, GUARD);
  startOutput();
  startLabels(length);
  startHistograms(length);
  readDocument(length);
}

/** Whether the dictionary should be cleared before the next document. */
export function needsRoom(): bool {
  return !hasRoom();
}

/** Whether the kernel fell back because the dictionary is full: the host may call `forget` and retry. */
export function wasFull(): bool {
  return isFull;
}

/** Bytes of text so far. */
export function textLength(): u32 {
  return textBytes();
}

/** Address of the metric that the kernel fell back for; 0 if it fell back for the whole document. */
export function unusualMetric(): usize {
  return metricAt;
}

/** Discards the text of that metric; returns its end. */
export function leaveMetric(): usize {
  const length = metricText;
  const end = skipMetric();
  cutTo(length);
  flushAll();
  return end;
}

/** Continues after the metric, for which the host itself wrote `length` bytes, of points with or without a time. */
export function resume(at: usize, length: u32, hadPoints: bool): void {
  addHostText(length);
  if (hadPoints) setLastTime(0, 0);
  readOn(at);
}

/** The message of the current resource, empty if it has none; and its number in the document. */
export function resourceMessageAt(): usize {
  return resourceAt;
}
export function resourceMessageLength(): u32 {
  return resourceLength;
}
export function resourceCount(): u32 {
  return resourceNumber;
}
