import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { LastLines, maskSecrets, reemit } from "./child-log.ts";

function emitted(...raw: string[]): { lines: Record<string, unknown>[]; last: LastLines } {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: "debug", formatters: { level: (level) => ({ level }) } },
    { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const last = new LastLines();
  for (const line of raw) reemit(line, log, last);
  return { lines, last };
}

describe("a line of the collector", () => {
  test("keeps its level, its message and its fields", () => {
    const { lines } = emitted('{"level":"warn","ts":1,"caller":"x.go:1","msg":"slow","otelcol.component.id":"otlp","took":3}');
    expect(lines).toMatchObject([{ level: "warn", msg: "slow", component: "collector", "otelcol.component.id": "otlp", took: 3 }]);
    expect(lines[0]).not.toHaveProperty("caller");
  });

  test("that is no JSON, as of a panic, is an error, and what it died of is the reason rather than the trace", () => {
    const { lines, last } = emitted("panic: boom", "", "goroutine 1 [running]:", ...Array.from({ length: 20 }, (_, i) => `main.go:${i}`));
    expect(new Set(lines.map(({ level }) => level))).toEqual(new Set(["error"]));
    expect(lines).toHaveLength(22);
    expect(last.text()).toBe("panic: boom");
    expect(emitted("x".repeat(200_000)).last.text().length).toBeLessThanOrEqual(2000);
  });

  test("of the error is the reason, rather than what was said last", () => {
    const { last } = emitted(
      '{"level":"error","msg":"cannot listen","error":"address in use"}',
      '{"level":"info","msg":"Shutdown complete."}',
    );
    expect(last.text()).toBe("cannot listen: address in use");
  });

  test("that calls dropped what its end interrupted is said to be kept, for a queue on disk only", () => {
    const line = (id: string, error: string): string =>
      `{"level":"error","msg":"Exporting failed. Dropping data.","otelcol.component.id":"${id}","error":"${error}","dropped_items":9}`;
    const interrupted = "interrupted due to shutdown: Throttle (1s)";
    const kept = emitted(line("otlp_http/files", interrupted));
    const msg = "the collector ended before this was delivered: it stays in the disk queue";
    expect(kept.lines).toMatchObject([{ level: "info", msg, error: interrupted, items: 9 }]);
    expect(kept.last.text()).toBe("");
    for (const dropped of [line("otlp_http/files", "not retryable error"), line("otlp_http/theirs", interrupted)]) {
      expect(emitted(dropped).lines).toMatchObject([{ level: "error", msg: "Exporting failed. Dropping data.", dropped_items: 9 }]);
    }
  });

  test.each([
    "ak_0123456789abcdef",
    "it_0123456789abcdef",
    "Bearer eyJhbGciOi.J9.x-y_z",
    "eyJhbGciOi.J9eyJz.x-y_z",
    "http://user:hunter22@proxy:3128",
    'password: "hunter22"',
    '{"api_key":"hunter22"}',
    "TOKEN=hunter22",
  ])("shows nothing of %s", (secret) => {
    expect(maskSecrets(`before ${secret} after`)).not.toMatch(/hunter22|0123456789|eyJhbGci/);
    expect(maskSecrets(`before ${secret} after`)).toMatch(/^before .* after$/);
  });
});
