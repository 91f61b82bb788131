// One run of a program that speaks as a collector could, where the real one cannot be made to.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { CollectorProcess } from "./process.ts";

/** Writes a line that ends only once it is asked to end itself. */
const ENDLESS = `
  process.on("SIGTERM", () => { process.stdout.write("\\nnext\\n"); process.exit(); });
  setInterval(() => {}, 1000);
  process.stdout.write('{"level":"info","msg":"ak_0123456789abcdef ' + "x".repeat(300_000));
`;

test("a line that does not end is told once, cut and without its secrets, and the collector is heard on", async () => {
  using folder = temporaryFolder();
  const program = join(folder.path, "otelcol");
  writeFileSync(program, `#!${process.execPath}\n${ENDLESS}`, { mode: 0o755 });
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const log = pino({ formatters: { level: (level) => ({ level }) } }, { write });
  const child = await CollectorProcess.start({ program, configFile: "", memoryMib: 100, stopGraceMs: 20_000, env: {}, log });
  try {
    await vi.waitFor(() => expect(lines).toHaveLength(1), { timeout: 20_000 });
    const msg = String(lines[0]?.["msg"]);
    const ends = [msg.slice(0, 40), msg.slice(-40)];
    expect(ends).toEqual(['{"level":"info","msg":"ak_[redacted] xxx', "x… [cut: the line is longer than 64 KiB]"]);
    expect(lines[0]?.["level"]).toBe("info");
    expect(msg.length).toBeLessThan(66_000);
    await child.stop();
    expect(lines.map((line) => line["msg"])).toEqual([msg, "next"]);
  } finally {
    child.kill();
  }
});
