import { type Logger, pino } from "pino";
import { describe, expect, test, vi } from "vitest";
import { advice } from "../../identity/plan.ts";
import { maskSecrets } from "../../../common/mask.ts";
import { MAX_LINE_LENGTH } from "../../agent-limits.ts";
import { CUT_MARK, eachLine, endsEvents, LastLines, Outages, reemit } from "./child-log.ts";
import { Readable } from "node:stream";

function recorder(): { lines: Record<string, unknown>[]; log: Logger } {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: "debug", formatters: { level: (level) => ({ level }) } },
    { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  return { lines, log };
}

function emitted(...raw: string[]): { lines: Record<string, unknown>[]; last: LastLines } {
  const { lines, log } = recorder();
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

  test("has each key once, whatever the collector calls its fields", () => {
    const { lines } = emitted('{"level":"info","msg":"started","pid":7,"name":"x","hostname":"h","time":"t"}');
    expect(lines[0]).toMatchObject({
      pid: process.pid,
      collector_pid: 7,
      collector_name: "x",
      collector_hostname: "h",
      collector_time: "t",
    });
  });

  test("that is no JSON, such as a panic, is an error whose reason is the panic and not the trace", () => {
    const { lines, last } = emitted("panic: boom", "", "goroutine 1 [running]:", ...Array.from({ length: 20 }, (_, i) => `main.go:${i}`));
    expect(new Set(lines.map(({ level }) => level))).toEqual(new Set(["error"]));
    expect(lines).toHaveLength(22);
    expect(last.text()).toBe("panic: boom");
    expect(emitted("x".repeat(200_000)).last.text().length).toBeLessThanOrEqual(2000);
  });

  test("with an error is the reported reason, even if other lines follow", () => {
    const { last } = emitted(
      '{"level":"error","msg":"cannot listen","error":"address in use"}',
      '{"level":"info","msg":"Shutdown complete."}',
    );
    expect(last.text()).toBe("cannot listen: address in use");
  });

  test("that reports interrupted data as dropped is logged as kept, only if the queue is on disk", () => {
    const line = (id: string, error: string): string =>
      `{"level":"error","msg":"Exporting failed. Dropping data.","otelcol.component.id":"${id}","error":"${error}","dropped_items":9}`;
    const interrupted = "interrupted due to shutdown: Throttle (1s)";
    const msg = "collector stopped before it delivered these items; they stay in the disk queue";
    for (const id of ["otlp_http/files", "otlp_http/atherops", "otlp_http/atherops-metrics"]) {
      const kept = emitted(line(id, interrupted));
      expect(kept.lines).toMatchObject([{ level: "info", msg, error: interrupted, items: 9 }]);
      expect(kept.last.text()).toBe("");
    }
    for (const dropped of [line("otlp_http/files", "not retryable error"), line("otlp_http/theirs", interrupted)]) {
      expect(emitted(dropped).lines).toMatchObject([{ level: "error", msg: "Exporting failed. Dropping data.", dropped_items: 9 }]);
    }
  });

  test("about a receiver or processor that fails again and again is logged once, and once more when it recovers", async () => {
    vi.useFakeTimers();
    try {
      const { lines, log } = recorder();
      using outages = new Outages(log);
      const say = (id: string, msg: string, error = "refused", kind = "receiver"): void =>
        reemit(
          JSON.stringify({ level: "error", msg, error, "otelcol.component.id": id, "otelcol.component.kind": kind }),
          log,
          new LastLines(),
          false,
          outages,
        );
      for (let reading = 0; reading < 4; reading++) {
        say("kubeletstats", "call to /stats/summary endpoint failed", `port ${reading}`);
        say("kubeletstats", "Error scraping metrics", `port ${reading}`);
        say("prometheus/cadvisor", "Failed to scrape Prometheus endpoint");
        say("file_log/pods", "cannot open", reading < 2 ? "a" : "b");
        // The condition of an operator, for each record.
        say("filter/drop", "failed to eval condition", "log bodies of type Str cannot be indexed", "processor");
        await vi.advanceTimersByTimeAsync(15_000);
      }
      const logged = (): unknown[] => lines.map(({ msg, error }) => [msg, error]);
      const failing = [
        ["call to /stats/summary endpoint failed", "port 0"],
        ["Failed to scrape Prometheus endpoint", "refused"],
        ["cannot open", "a"],
        ["failed to eval condition", "log bodies of type Str cannot be indexed"],
        ["cannot open", "b"],
      ];
      expect(logged().slice(0, 5)).toEqual(failing);
      await vi.advanceTimersByTimeAsync(60_000);
      expect(lines.filter(({ msg }) => String(msg).endsWith("reports no more errors"))).toMatchObject([
        { receiver: "file_log/pods", repeated: 1, for_s: 15, level: "info" },
        { receiver: "kubeletstats", repeated: 3, for_s: 45 },
        { receiver: "prometheus/cadvisor", repeated: 3 },
        { receiver: "file_log/pods", repeated: 1 },
        { receiver: "filter/drop", repeated: 3 },
      ]);
      say("kubeletstats", "call to /stats/summary endpoint failed", "anew");
      expect(lines.at(-1)).toMatchObject({ error: "anew", level: "error" });
    } finally {
      vi.useRealTimers();
    }
  });

  test.each(["no_install_token", "install_token_refused", "key_refused", "secret_missing"] as const)(
    "keeps the agent's own advice %s when secrets are masked",
    (code) => {
      expect(maskSecrets(advice(code, "ns/name"))).toBe(advice(code, "ns/name"));
    },
  );

  test.each([
    "ak_0123456789abcdef",
    "it_0123456789abcdef",
    "Bearer eyJhbGciOi.J9.x-y_z",
    "eyJhbGciOi.J9eyJz.x-y_z",
    "http://user:hunter22@proxy:8080",
    'password: "hunter22"',
    '{"api_key":"hunter22"}',
    "TOKEN=hunter22",
  ])("contains no %s", (secret) => {
    expect(maskSecrets(`before ${secret} after`)).not.toMatch(/hunter22|0123456789|eyJhbGci/);
    expect(maskSecrets(`before ${secret} after`)).toMatch(/^before .* after$/);
  });
});

test.each([
  // Lines that a real collector printed when the API server refused its watch once, with 403.
  [true, "warn", "k8sobjects", { msg: "Watch channel closed unexpectedly" }],
  [
    true,
    "error",
    "k8sobjects",
    { msg: "error converting objects to log data", error: "received data that wasnt unstructure, &{ERROR &Status" },
  ],
  [true, "error", "k8sobjects", { msg: "could not retrieve a resourceVersion" }],
  [false, "info", "k8sobjects", { msg: "received a 410, grabbing new resource version" }],
  [false, "warn", "k8s_cluster", { msg: "Watch channel closed unexpectedly" }],
])("about the end of an event watch is logged (%s) by the %s of %s: %j", (ended, level, id, said) => {
  expect(endsEvents(JSON.stringify({ level, ...said, "otelcol.component.id": id, "otelcol.component.kind": "receiver" }))).toBe(ended);
});

/** The lines of bytes that come in these pieces. */
async function linesOf(pieces: readonly (string | Uint8Array)[]): Promise<string[]> {
  const lines: string[] = [];
  const stream = Readable.from(
    pieces.map((piece) => Buffer.from(piece)),
    { objectMode: false },
  );
  eachLine(stream, (line) => lines.push(line));
  await new Promise((ended) => stream.on("end", ended));
  return lines;
}

test.each([
  ["one in several pieces", ["a", "b\n"], ["ab"]],
  ["several in one piece", ["a\nb\n\nc\n"], ["a", "b", "", "c"]],
  ["one whose end is missing", ["a\nb"], ["a", "b"]],
  ["ends of Windows", ["a\r", "\nb\r\n"], ["a", "b"]],
  ["a character that comes in two pieces", [Buffer.from("ü\n").subarray(0, 1), Buffer.from("ü\n").subarray(1)], ["ü"]],
  ["none", [], []],
])("assembles whole lines: %s", async (_what, pieces, lines) => {
  expect(await linesOf(pieces)).toEqual(lines);
});

test("logs a line of the maximum length whole, truncates a longer one, and logs the next one whole", async () => {
  const longest = "x".repeat(MAX_LINE_LENGTH);
  const lines = await linesOf([`${longest}\n`, longest, longest, `${longest}y\nnext\n`]);
  expect(lines).toHaveLength(3);
  expect(lines[0] === longest).toBe(true);
  expect(lines[1]?.endsWith(`x${CUT_MARK}`)).toBe(true);
  expect(lines[1]?.length).toBeLessThanOrEqual(MAX_LINE_LENGTH + CUT_MARK.length);
  expect(lines[2]).toBe("next");
});

test.each([
  "ak_hunter22hunter22",
  "http://user:hunter22@proxy:8080",
  '\\"api_key\\":\\"hunter22\\"',
  "Bearer hunter22.hunter22",
  "eyJhunter22.eyJhunter22.hunter22",
  "password: hunter22",
])("masks a secret that the truncation cuts: %s", async (secret) => {
  for (const before of ["word ", "x".repeat(9000)]) {
    for (let place = 0; place <= secret.length; place++) {
      const filled = before.padStart(MAX_LINE_LENGTH - place, "y ");
      const [line = ""] = await linesOf([`${filled}${secret} and more`]);
      expect(line.endsWith(CUT_MARK)).toBe(true);
      expect(maskSecrets(line)).not.toContain("hunter22");
      expect(line).not.toMatch(/hunter?[2]?$/);
    }
  }
});
