// Runs the jobs of Loki's API in a sandbox process: all that parses or evaluates a query. Invariant: a job is plain data, its result bytes.
import { wrongQuery } from "./grammar.ts";
import { refusedExpression } from "../../engines/clickhouse/engine.ts";
import { Sql } from "../../engines/clickhouse/sql.ts";
import type { RecordFilter } from "../../storage/logs/filter.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import type { LogRow } from "../../storage/logs/log-store.ts";
import type { Page } from "../../storage/page.ts";
import { ORGANISATION } from "../sandbox/protocol.ts";
import type { JobRunner } from "../sandbox/sandbox.ts";
import type { JobContext } from "../sandbox/serve-jobs.ts";
import { collectStreams, jsonOf } from "./answers.ts";
import { mayDropRecords, pushDown } from "./conditions.ts";
import { ENDPOINTS, requiredLogs } from "./endpoints.ts";
import { EntryFactory } from "./entry.ts";
import type { RequestParameters } from "./parameters.ts";
import { pipelineOf } from "./pipeline.ts";
import { answerRecords } from "./record-pages.ts";
import { type Bounds, BOUNDS, Budget } from "./regex.ts";
import type { Stage } from "./syntax.ts";

export interface EndpointJob {
  readonly kind: "endpoint";
  /** A path of ENDPOINTS. */
  readonly path: string;
  readonly parameters: RequestParameters;
  readonly name: string | undefined;
  readonly categorize: boolean;
  readonly nowNs: bigint;
  readonly bounds?: Bounds | undefined;
}

/** Computes which stored records a log query selects, before stages that ClickHouse cannot evaluate. */
export interface FilterJob {
  readonly kind: "filter";
  readonly parameters: RequestParameters;
}

/** Reads a page of records and applies all stages to them. */
export interface RecordsJob {
  readonly kind: "records";
  readonly parameters: RequestParameters;
  /** SQL of further conditions. */
  readonly conditions: readonly string[];
  readonly page: Page;
  readonly bounds?: Bounds | undefined;
}

/** Computes the message for one read of a tail; empty if nothing is to be sent. */
export interface TailMessageJob {
  readonly kind: "tail_message";
  readonly parameters: RequestParameters;
  /** Rows in JSON; undefined marks skipped records. */
  readonly rows: readonly (string | undefined)[];
  readonly bounds?: Bounds | undefined;
}

export type LokiJob = EndpointJob | FilterJob | RecordsJob | TailMessageJob;

/** Jobs that only read the text of a query do not wait for jobs that compute. */
export function chooseByJob({ computing, reading }: { readonly computing: JobRunner; readonly reading: JobRunner }): JobRunner {
  return { run: (orgId, job, options) => ((job as LokiJob).kind === "filter" ? reading : computing).run(orgId, job, options) };
}

export async function runLokiJob(job: LokiJob, { ask, signal }: JobContext): Promise<Uint8Array> {
  if (job.kind === "filter") return jsonOf(logFilter(job));
  const context = { ask, orgId: ORGANISATION, budget: new Budget(job.bounds ?? BOUNDS, signal) };
  if (job.kind === "tail_message") {
    const { rest } = pushDown(requiredLogs(job.parameters));
    return Buffer.from(await buildTailMessage(rest, job.rows, context.budget));
  }
  try {
    if (job.kind === "records") return await answerRecords(context, requiredLogs(job.parameters), job);
    const endpoint = ENDPOINTS.get(job.path);
    if (!endpoint) throw new Error(`there is no endpoint ${job.path}`);
    return await endpoint.answer(job.parameters, { ...job, context });
  } catch (error) {
    // Only the engine finds some regular expressions invalid.
    const refused = refusedExpression(error);
    throw refused ? wrongQuery(`not a regular expression of RE2: ${refused.reason}`, error) : error;
  }
}

interface FilterResult {
  readonly conditions: readonly string[];
  readonly from: string;
  readonly blockRows?: number | undefined;
  readonly stages: LogFilter["stages"];
}

export interface LogFilter {
  readonly filter: RecordFilter;
  /** What remains for a RecordsJob: stages that may drop records, stages that only change them, or none. */
  readonly stages: "filter" | "change" | "none";
}

function logFilter({ parameters }: FilterJob): FilterResult {
  const { conditions, matching, rest } = pushDown(requiredLogs(parameters));
  const stages = mayDropRecords(rest) ? "filter" : rest.length > 0 ? "change" : "none";
  return { conditions: conditions.map(({ text }) => text), from: matching.from.text, blockRows: matching.blockRows, stages };
}

export function readLogFilter(answer: Buffer): LogFilter {
  const { conditions, from, blockRows, stages } = JSON.parse(answer.toString("utf8")) as FilterResult;
  const matching = { ...NO_MATCHING, from: new Sql(from), blockRows };
  return { filter: { labels: [], also: { conditions: conditions.map((text) => new Sql(text)), matching } }, stages };
}

/** `rows`: in JSON; undefined marks skipped records. Throws ApiError query_too_expensive. */
async function buildTailMessage(stages: readonly Stage[], rows: readonly (string | undefined)[], budget: Budget): Promise<string> {
  const passes = pipelineOf(stages);
  const entries = new EntryFactory();
  const streams = collectStreams(false);
  let dropped = 0;
  for (const row of rows) {
    if (budget.isDue) await budget.yieldToOthers();
    if (row === undefined) {
      dropped += 1;
      continue;
    }
    const { timestamp, message, scope, ...rest } = JSON.parse(row) as LogRow;
    const entry = entries.create({ ...rest, ns: nanosecondsOf(timestamp), line: message, scope_name: scope });
    if (passes(entry)) streams.add(entry);
  }
  const result = streams.result();
  if (result.length === 0 && dropped === 0) return "";
  // The time and labels of skipped records are unknown.
  const droppedEntries = dropped > 0 ? [{ timestamp: "0", labels: {} }] : null;
  return JSON.stringify({ streams: result, dropped_entries: droppedEntries });
}

/** Parses RFC 3339 with nine fractional digits to nanoseconds. */
function nanosecondsOf(timestamp: string): string {
  const [second = "", fraction = ""] = timestamp.replace("Z", "").split(".");
  return String(BigInt(Date.parse(`${second}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, "0")));
}
