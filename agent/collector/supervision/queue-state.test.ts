import { expect, test } from "vitest";
import { Rejections } from "./queue-state.ts";

function line(fields: object): string {
  return JSON.stringify({ level: "error", msg: "Exporting failed. Rejecting data.", rejected_items: 100, ...fields });
}

test("reports a full queue until a minute after the last complaint of the collector", () => {
  const rejections = new Rejections();
  rejections.note(line({ "otelcol.signal": "logs", error: "write /state/queue/x: no space left on device" }), 1000);
  rejections.note(line({ "otelcol.signal": "logs", error: "no space left on device" }), 50_000);
  expect([...rejections.current(60_000)]).toEqual([["logs", { sinceMs: 1000, lastMs: 50_000, error: "no space left on device" }]]);
  expect(rejections.current(120_000).size).toBe(0);
});

test.each([
  line({ "otelcol.signal": "logs", error: "sending queue is full" }),
  line({ "otelcol.signal": "none", error: "no space left on device" }),
  line({ "otelcol.signal": "logs", error: "no space left on device" }).replace("Exporting failed. Rejecting", "Other"),
  "panic: no space left on device",
  '{"msg":"Exporting failed. Rejecting data.", cut',
])("does not count %s as a complaint", (text) => {
  const rejections = new Rejections();
  rejections.note(text, 1000);
  expect(rejections.current(1000).size).toBe(0);
});
