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

  test("that is no JSON, as of a panic, is an error and part of the reason", () => {
    const { lines, last } = emitted("panic: boom", "", "goroutine 1 [running]:", "x".repeat(200_000));
    expect(lines.map(({ level }) => level)).toEqual(["error", "error", "error"]);
    expect(last.text().length).toBeLessThanOrEqual(2000);
    expect(emitted("panic: boom").last.text()).toBe("panic: boom");
  });

  test("of the error is the reason, rather than what was said last", () => {
    const { last } = emitted(
      '{"level":"error","msg":"cannot listen","error":"address in use"}',
      '{"level":"info","msg":"Shutdown complete."}',
    );
    expect(last.text()).toBe("cannot listen: address in use");
  });

  test.each([
    "ak_0123456789abcdef",
    "it_0123456789abcdef",
    "Bearer eyJhbGciOi.J9.x-y_z",
    "http://user:hunter22@proxy:3128",
    'password: "hunter22"',
    '{"api_key":"hunter22"}',
    "TOKEN=hunter22",
  ])("shows nothing of %s", (secret) => {
    expect(maskSecrets(`before ${secret} after`)).not.toMatch(/hunter22|0123456789|eyJhbGci/);
    expect(maskSecrets(`before ${secret} after`)).toMatch(/^before .* after$/);
  });
});
