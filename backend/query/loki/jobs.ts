// The jobs of Loki's API, evaluated in a sandbox process: everything that reads a query of a request, and everything that computes by one.
// Invariant: a job is plain data, and its answer bytes.
import { Sql } from "../../engines/clickhouse/sql.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import type { RecordFilter } from "../../storage/logs/filter.ts";
import { ORGANISATION } from "../sandbox/protocol.ts";
import type { JobContext } from "../sandbox/serve-jobs.ts";
import { type Bounds, BOUNDS, Budget } from "./budget.ts";
import { push } from "./conditions.ts";
import { ENDPOINTS } from "./endpoints.ts";
import { requiredLogs } from "./endpoint-parts.ts";
import { jsonOf } from "./json-answer.ts";
import type { Given } from "./parameters.ts";
import { EngineReader } from "./reader.ts";
import { messageOf } from "./tail-messages.ts";

export interface EndpointJob {
  readonly kind: "endpoint";
  /** A path of ENDPOINTS. */
  readonly path: string;
  readonly given: Given;
  readonly name: string | undefined;
  readonly categorize: boolean;
  readonly nowNs: bigint;
  readonly bounds?: Bounds | undefined;
}

/** Which records a tail reads. */
export interface TailFilterJob {
  readonly kind: "tail_filter";
  readonly given: Given;
}

/** What one pull of a tail becomes; empty: nothing is to be sent. */
export interface TailMessageJob {
  readonly kind: "tail_message";
  readonly given: Given;
  /** Rows in JSON; undefined: records were left out. */
  readonly rows: readonly (string | undefined)[];
  readonly bounds?: Bounds | undefined;
}

export type LokiJob = EndpointJob | TailFilterJob | TailMessageJob;

export async function runLokiJob(job: LokiJob, { read, signal }: JobContext): Promise<Uint8Array> {
  if (job.kind === "tail_filter") return jsonOf(tailFilter(job));
  const bounds = job.bounds ?? BOUNDS;
  if (job.kind === "tail_message") {
    const { rest } = push(requiredLogs(job.given));
    return Buffer.from(await messageOf(rest, job.rows, new Budget(bounds, signal)));
  }
  const endpoint = ENDPOINTS.get(job.path)?.endpoint;
  if (!endpoint) throw new Error(`there is no endpoint ${job.path}`);
  const reader = new EngineReader({ read }, bounds);
  return await endpoint(job.given, { ...job, reader })(ORGANISATION, { signal });
}

interface SentFilter {
  readonly conditions: readonly string[];
  readonly from: string;
  readonly blockRows?: number | undefined;
}

function tailFilter({ given }: TailFilterJob): SentFilter {
  const { conditions, matching } = push(requiredLogs(given));
  return { conditions: conditions.map(({ text }) => text), from: matching.from.text, blockRows: matching.blockRows };
}

/** Reads the answer of a TailFilterJob. */
export function readTailFilter(answer: Buffer): RecordFilter {
  const { conditions, from, blockRows } = JSON.parse(answer.toString("utf8")) as SentFilter;
  const matching = { ...NO_MATCHING, from: new Sql(from), blockRows };
  return { labels: [], also: { conditions: conditions.map((text) => new Sql(text)), matching } };
}
