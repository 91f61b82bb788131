// What the host calls (agent/proxy/fast-exposition.ts): OTLP/JSON metrics become lines of exposition text, which the host takes as they
// come. What is unusual ends a call by a throw of the host's own; within a metric the host writes that metric's lines, and `resume` goes on.
import { readDocument, readOn, skipMetric } from "./document";
import { isFull, hasRoom } from "./dictionary";
import { startHistograms } from "./histogram";
import { forget, resourceAt, resourceLength, startLabels } from "./labels";
import { metricAt, metricText, resourceNumber } from "./document";
import { GUARD, INPUT } from "./memory";
import { addTaken, cutTo, flushAll, startOutput, textBytes } from "./output";
import { setLastTime } from "./points";

export { forget };

/** Where the body begins. */
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

/** Whether it should forget what it remembers, before it reads. */
export function needsRoom(): bool {
  return !hasRoom();
}

/** Whether it gave up for want of room to remember: it may be asked again, after `forget`. */
export function wasFull(): bool {
  return isFull;
}

/** How much text the document is by now. */
export function textLength(): u32 {
  return textBytes();
}

/** Where the metric begins that it gave up on; 0 where it gave up on the document. */
export function unusualMetric(): usize {
  return metricAt;
}

/** Takes back what was written of that metric; returns its end. */
export function leaveMetric(): usize {
  const length = metricText;
  const end = skipMetric();
  cutTo(length);
  flushAll();
  return end;
}

/** Goes on behind the metric, for which the host wrote `length` bytes itself, of points with a time or without. */
export function resume(at: usize, length: u32, hadPoints: bool): void {
  addTaken(length);
  if (hadPoints) setLastTime(0, 0);
  readOn(at);
}

/** The message of the resource that is read, empty for none; which of the document's it is. */
export function resourceMessageAt(): usize {
  return resourceAt;
}
export function resourceMessageLength(): u32 {
  return resourceLength;
}
export function resourceCount(): u32 {
  return resourceNumber;
}
