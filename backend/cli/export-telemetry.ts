// `atherops export-telemetry`: an organisation's logs, spans and samples as files of JSON lines, before it leaves or for another program.
// Invariants: it reads through the same routes, limits and fair queues as any user; memory is limited to one page; a file whose name does
// not end in `.part` is complete.
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import type { Command } from "commander";
import { pause } from "../../common/loop.ts";
import { Problem, RefusedValue, TemporaryProblem } from "./cli-error.ts";
import type { Client } from "./api-client.ts";
import type { Console } from "./output.ts";
import { sinceStart } from "./query-rows.ts";

const PAGE_ROWS = "500";
const PROMETHEUS = "/query/prometheus/api/v1";
const DAY_MS = 86_400_000;
const MIN_RANGE_MS = 60_000;
const MAX_ATTEMPTS = 60;
const RETRY_AFTER_S = 5;

interface Options {
  out: string;
  since: string;
}

/** Samples of one series, in VictoriaMetrics' import format. */
interface Line {
  readonly metric: Record<string, string>;
  readonly values: readonly number[];
  readonly timestamps: readonly number[];
}

export function addExportTelemetry(program: Command, console: Console): void {
  program
    .command("export-telemetry")
    .description("logs, spans and samples of your organisation, of the last 30 days or since a time, as files of JSON lines")
    .requiredOption("--out <folder>", "gets logs.ndjson, spans.ndjson and metrics.ndjson")
    .option("--since <duration>", "how far back, such as 24h or 30d", "30d")
    .addHelpText(
      "after",
      `
Samples are in the format that VictoriaMetrics imports (POST /api/v1/import). Times are those of the records; what arrives during the export
may be missing. A request that the backend refuses for a moment is repeated.

Example:
  atherops export-telemetry --out shop-2026-11 --since 90d`,
    )
    .action(async ({ out, since }: Options) => {
      const [start = "", end] = [sinceStart(since), new Date().toISOString()];
      await mkdir(out, { recursive: true });
      const client = console.client();
      await writeFile(console, join(out, "logs.ndjson"), pages(console, client, "/query/logs", { start, end, order: "oldest" }));
      await writeFile(console, join(out, "spans.ndjson"), pages(console, client, "/query/traces", { start, end }));
      await writeFile(console, join(out, "metrics.ndjson"), samples(console, client, Date.parse(start), Date.parse(end)));
    });
}

async function writeFile(console: Console, path: string, lines: AsyncIterable<readonly object[]>): Promise<void> {
  const stream = createWriteStream(`${path}.part`);
  const ended = finished(stream);
  // A failure is thrown by the await below.
  ended.catch(() => undefined);
  let count = 0;
  for await (const batch of lines) {
    count += batch.length;
    const text = batch.map((line) => `${JSON.stringify(line)}\n`).join("");
    if (!stream.write(text)) await Promise.race([once(stream, "drain"), ended]);
  }
  stream.end();
  await ended;
  await rename(`${path}.part`, path);
  console.note(`${path}: ${count} lines`);
}

async function* pages(console: Console, client: Client, path: string, query: Record<string, string>): AsyncGenerator<readonly object[]> {
  let page = await retryWhileBusy(console, () => client.page(path, { ...query, limit: PAGE_ROWS }));
  for (;;) {
    yield page.rows;
    const { next } = page;
    if (next === undefined) return;
    page = await retryWhileBusy(console, () => client.page(next));
  }
}

async function* samples(console: Console, client: Client, startMs: number, endMs: number): AsyncGenerator<readonly Line[]> {
  const range = { start: String(startMs / 1000), end: String(endMs / 1000) };
  const names = await retryWhileBusy(console, () =>
    client.call<{ data: string[] }>("GET", `${PROMETHEUS}/label/__name__/values`, { query: range }),
  );
  let oldestMs = startMs;
  for (const name of names.data) {
    for (let fromMs = oldestMs, stepMs = DAY_MS; fromMs < endMs;) {
      const untilMs = Math.min(endMs, fromMs + stepMs);
      const lines = await samplesOf(console, client, name, fromMs, untilMs).catch((error: unknown) => {
        // The backend refuses times before the retention of the metrics, which has a later beginning each time.
        if (error instanceof RefusedValue && error.field === "time") {
          oldestMs = untilMs;
          return [];
        }
        // The backend refuses a response that is too large: request a shorter range.
        if (error instanceof TemporaryProblem || !(error instanceof Problem) || stepMs <= MIN_RANGE_MS) throw error;
        return undefined;
      });
      if (lines === undefined) stepMs /= 4;
      else {
        yield lines;
        fromMs = untilMs;
      }
    }
  }
  if (oldestMs > startMs)
    console.note(`samples are exported from ${new Date(oldestMs).toISOString()} on: your organisation's metrics are not kept for longer`);
}

/** Samples after `fromMs`, up to and including `untilMs`. */
async function samplesOf(console: Console, client: Client, name: string, fromMs: number, untilMs: number): Promise<Line[]> {
  const query = { query: `{__name__=${JSON.stringify(name)}}[${untilMs - fromMs}ms]`, time: String(untilMs / 1000) };
  type Series = { metric: Record<string, string>; values: [seconds: number, value: string][] };
  const { data } = await retryWhileBusy(console, () =>
    client.call<{ data: { result: Series[] } }>("GET", `${PROMETHEUS}/query`, { query }),
  );
  return data.result.map(({ metric: { org_id: _orgId, ...metric }, values }) => ({
    metric,
    values: values.map(([, value]) => Number(value)),
    timestamps: values.map(([seconds]) => Math.round(seconds * 1000)),
  }));
}

async function retryWhileBusy<T>(console: Console, request: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof TemporaryProblem) || attempt === MAX_ATTEMPTS) throw error;
      await pause((error.retryAfterS || RETRY_AFTER_S) * 1000, console.world.signal);
    }
  }
}
