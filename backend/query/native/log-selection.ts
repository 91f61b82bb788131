// Reads which records a request to a logs route selects: by its parameters, and by the query language of docs/log-query.md or LogQL.
// Invariants: LogQL is parsed and evaluated in the sandbox, never in this process; no part of a query is ignored.
import type { FastifyReply, FastifyRequest } from "fastify";
import { readerOf } from "../../http/request-identity.ts";
import { isLogQl } from "../../client/query-syntax.ts";
import { ApiError } from "../../errors.ts";
import { goneSignal } from "../../http/http-client.ts";
import { type RecordFilter, recordConditions } from "../../storage/logs/filter.ts";
import type { PageResult, Page } from "../../storage/page.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { type FilterJob, readLogFilter, type RecordsJob } from "../loki/jobs.ts";
import { refuseUnknown } from "../page-route.ts";
import type { LogRouteOptions } from "../route-parts.ts";
import { filterOf, type FilterParameters, type filterSchema } from "./log-filter-parameters.ts";

export interface LogSelection {
  readonly filter: RecordFilter;
  /** Set for LogQL with stages that ClickHouse cannot evaluate. Its `filter` has only the other parameters of the request. */
  readonly staged?: { readonly query: string; readonly leavesOut: boolean; readonly filter: RecordFilter };
}

/** Throws ApiError invalid_parameter that names the parameter, and ClientGoneError. `schema`: that of the route. */
export async function readSelection(
  request: FastifyRequest,
  reply: FastifyReply,
  schema: ReturnType<typeof filterSchema>,
  sandbox: LogRouteOptions["sandbox"],
): Promise<LogSelection> {
  refuseUnknown(request, schema.properties, ["label.", "not_label."]);
  const parameters = request.query as FilterParameters;
  const { query, ...others } = parameters;
  if (query === undefined || !isLogQl(query)) return { filter: filterOf(parameters) };
  const pattern = (["regex", "not_regex"] as const).find((name) => parameters[name] !== undefined);
  if (pattern) throw new ApiError("invalid_parameter", `${pattern}: not next to LogQL, which has |~ and !~`);
  const job: FilterJob = { kind: "filter", parameters: { query } };
  const { orgId, labelLimits } = readerOf(request);
  const { filter: selected, stages } = readLogFilter(await sandbox.run(orgId, job, { labelLimits, signal: goneSignal(reply) }));
  const filter = filterOf(others);
  const staged = stages === "none" ? {} : { staged: { query, leavesOut: stages === "filter", filter } };
  return { filter: { ...filter, also: selected.also }, ...staged };
}

/** The filter for counts of stored records. Throws ApiError invalid_parameter if a stage may leave records out. */
export function countedFilter({ filter, staged }: LogSelection): RecordFilter {
  if (!staged?.leavesOut) return filter;
  throw new ApiError(
    "invalid_parameter",
    "query: records are counted by a selector, line filters and filters of stored labels; filters after a parser or a formatter only list records",
  );
}

/** A page of records that pass all stages. */
export async function readStagedPage(
  sandbox: LogRouteOptions["sandbox"],
  orgId: string,
  { page, staged }: { readonly page: Page; readonly staged: NonNullable<LogSelection["staged"]> },
  options: QueryOptions,
): Promise<PageResult> {
  const conditions = recordConditions(staged.filter).map(({ text }) => text);
  const job: RecordsJob = { kind: "records", parameters: { query: staged.query }, conditions, page };
  const answer = await sandbox.run(orgId, job, options);
  const lineEnd = answer.indexOf("\n");
  const [, time, id] = /^(\d+)\.(\d+)$/.exec(answer.toString("latin1", 0, lineEnd)) ?? [];
  return { json: answer.subarray(lineEnd + 1), next: time && id ? { time: BigInt(time), id: BigInt(id) } : undefined };
}
