// Decodes the worst bodies in a separate process, each twice at once for two organisations, and prints for each the result, the seconds and
// the increase of peak memory.
import { readFileSync, writeFileSync } from "node:fs";
import { ApiError } from "../../errors.ts";
import { OtlpDecoder } from "./otlp-decoder.ts";
import { HOSTILE_BODIES } from "./hostile-bodies.fixture.ts";

const CONTEXT = {
  hostId: "host",
  node: "node",
  receivedAtMs: Date.now(),
  firstId: "455000000000000000",
  bodyHash: "42",
  retentionDays: 30,
};

/** MiB. */
function resident(field: "VmRSS" | "VmHWM"): number {
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024);
}

await using decoder = new OtlpDecoder(2);
for (const { name, signal, make } of HOSTILE_BODIES) {
  const bodies = [make(), make()];
  // Resets the peak, because the memory for building the bodies is not measured.
  writeFileSync("/proc/self/clear_refs", "5");
  const before = resident("VmRSS");
  const startedAt = performance.now();
  const answers = await Promise.all(
    bodies.map(async (body, index) => {
      const orgId = `org ${index}`;
      using held = decoder.open(orgId);
      try {
        return String((await decoder.decode({ signal, body, context: { ...CONTEXT, orgId } }, held)).accepted);
      } catch (error) {
        if (error instanceof ApiError) return error.code;
        throw error;
      }
    }),
  );
  const seconds = Math.round((performance.now() - startedAt) / 100) / 10;
  console.log(JSON.stringify({ name, answers, seconds, peakMib: resident("VmHWM") - before }));
}
