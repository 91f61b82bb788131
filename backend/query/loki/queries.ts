// What is asked of /query and /query_range, answered. Invariant: one query is one turn of its organisation, however many statements it takes;
// an answer has at most as many entries as were asked for, and MOST_ANSWER_BYTES.
import type { ClickHouse } from "../../engines/clickhouse/client.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { ApiError } from "../../errors.ts";
import { collectStreams, matrixAnswer, scalarAnswer, streamsAnswer, vectorAnswer } from "./answers.ts";
import { type Bounds, Budget } from "./budget.ts";
import { push } from "./conditions.ts";
import { evaluate } from "./evaluate.ts";
import { wrongQuery } from "./literals.ts";
import type { EntryBounds, TimeSpan } from "./parameters.ts";
import { pipelineOf } from "./pipeline.ts";
import { records } from "./records.ts";
import type { Steps } from "./steps.ts";
import type { LogQuery, MetricQuery } from "./syntax.ts";

export interface Reading extends Pick<ClickHouse, "read"> {
  readonly bounds: Bounds;
}

const MOST_ANSWER_BYTES = 16 * 1024 * 1024;
const CUT = `the answer ends after ${MOST_ANSWER_BYTES / 1024 / 1024} MiB: ask for a shorter range, or for fewer entries`;
const CANNOT_COMPILE_REGEXP = "427";

export interface LogsAsked extends EntryBounds {
  readonly span: TimeSpan;
  readonly categorize: boolean;
}

/** From the start of the span up to and without its end, as Loki has it. */
export async function answerLogs(
  engine: Reading,
  orgId: string,
  { query, ...asked }: LogsAsked & { readonly query: LogQuery },
  options: QueryOptions,
): Promise<Buffer> {
  const { span, limit, oldestFirst, categorize } = asked;
  const pushed = push(query);
  const passes = pipelineOf(pushed.rest);
  const drops = pushed.rest.some(({ kind }) => kind === "line_filter" || kind === "label_filter");
  return await runQueued(engine, orgId, options, async (ask) => {
    const streams = collectStreams(categorize);
    const wanted = {
      ...pushed,
      span: { start: span.start, end: span.end - 1n },
      oldestFirst,
      hasLines: true,
      limit: drops ? undefined : limit,
    };
    let [count, warnings]: [number, string[]] = [0, []];
    for await (const entry of records(ask, orgId, wanted, new Budget(engine.bounds, options.signal))) {
      if (!passes(entry)) continue;
      streams.add(entry);
      count += 1;
      if (streams.bytes > MOST_ANSWER_BYTES && count < limit) warnings = [CUT];
      if (count >= limit || warnings.length > 0) break;
    }
    return streamsAnswer(streams, categorize, warnings);
  });
}

export interface MetricsAsked {
  readonly query: MetricQuery;
  readonly steps: Steps;
  /** Of one moment. */
  readonly isInstant: boolean;
}

export async function answerMetrics(
  engine: Reading,
  orgId: string,
  { query, steps, isInstant }: MetricsAsked,
  options: QueryOptions,
): Promise<Buffer> {
  if (query.kind === "number" && isInstant) return scalarAnswer(query.value, steps);
  const work = async (ask: Parameters<typeof evaluate>[0]["ask"]): Promise<Buffer> => {
    const series = await evaluate({ ask, orgId, steps, budget: new Budget(engine.bounds, options.signal) }, query);
    return isInstant ? vectorAnswer(series, steps) : matrixAnswer(series, steps);
  };
  // The health check of a data source needs no engine.
  return hasRecords(query)
    ? await runQueued(engine, orgId, options, work)
    : await work(() => Promise.reject(new Error("nothing is asked of the engine")));
}

function hasRecords(query: MetricQuery): boolean {
  if (query.kind === "range") return true;
  if (query.kind === "binary") return hasRecords(query.left) || hasRecords(query.right);
  return "of" in query && hasRecords(query.of);
}

/** Throws ApiError as ClickHouse.read does; what only the engine finds to be no regular expression is refused by name, too. */
export async function runQueued<T>(
  engine: Reading,
  orgId: string,
  options: QueryOptions,
  work: Parameters<typeof engine.read<T>>[2],
): Promise<T> {
  return await engine.read(orgId, options, work).catch((error: unknown) => {
    const { code, message = "" } = ((error as Error).cause ?? {}) as { code?: unknown; message?: string };
    if (!(error instanceof ApiError) || String(code) !== CANNOT_COMPILE_REGEXP) throw error;
    throw wrongQuery(
      `not a regular expression of RE2: ${/, error: (.{0,200}?)\. Look at/s.exec(message)?.[1] ?? "it cannot be read"}`,
      error,
    );
  });
}
