// Lines of the usual logging libraries, marked by the agent as lines of a container or of a host's file, become rows with level, time and trace
// ids, and their text does not change. The kernel and the slow path store the same rows.
import { describe, expect, test } from "vitest";
import { CONTEXT } from "./decoded-rows.fixture.ts";
import { CONTAINER_LINES, containerLine, LINES, storedLine, WRITTEN_NS } from "./file-lines.fixture.ts";
import { type LogLine, logLines, PLAIN_LINES } from "../../../test/fixtures/log-lines.ts";

const READ_NS = String(BigInt(CONTEXT.receivedAtMs) * 1_000_000n);
const ROWS = logLines(CONTEXT.receivedAtMs);

describe.each([
  ["of a container", CONTAINER_LINES, WRITTEN_NS],
  ["of a host's file", LINES, READ_NS],
])("a line %s", (_, scope, otherwise) => {
  test.each(Object.keys(ROWS))("%s", (name) => {
    const { line, level = "info", time: expected = otherwise, trace = "", span = "" } = ROWS[name] as LogLine;
    const stored = storedLine(scope, scope === LINES ? line : containerLine(line));
    expect(stored).toEqual({
      message: line,
      level,
      severity: expect.any(String) as string,
      time: expected,
      traceId: trace,
      spanId: span,
      scope: "",
      labels: scope === LINES ? {} : { "log.iostream": "stdout" },
    });
  });
});

test.each(PLAIN_LINES)("%s: %s", (level, line) => {
  const stored = storedLine(CONTAINER_LINES, containerLine(line));
  expect([stored.level, stored.severity === "0"]).toEqual(level === "none" ? ["info", true] : [level, false]);
});

test("klog's time is that of the line if it is UTC", () => {
  const near = new Date(CONTEXT.receivedAtMs - 60_000).toISOString();
  const line = `I${near.slice(5, 7)}${near.slice(8, 10)} ${near.slice(11, 23)}456 1 a.go:1] a`;
  expect(storedLine(LINES, line).time).toBe(`${CONTEXT.receivedAtMs - 60_000}456000`);
});

test.each([
  ["1231 23:59:59.000000", "2027-01-01T00:00:01Z", "2026-12-31T23:59:59Z"],
  ["0101 00:00:01.000000", "2026-12-31T23:59:59Z", "2027-01-01T00:00:01Z"],
  ["0229 10:00:00.000000", "2028-02-29T10:00:01Z", "2028-02-29T10:00:00Z"],
])("klog's %s, written at %s, is %s", (klog, written, expected) => {
  const context = { readsLines: true, receivedAtMs: Date.parse(written) };
  const row = storedLine(CONTAINER_LINES, `${written} stderr F I${klog} 1 a.go:1] a`, {}, context);
  expect(row.time).toBe(`${Date.parse(expected)}000000`);
});
