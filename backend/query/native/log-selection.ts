// The records that a request of the routes of logs selects: by the parameters, and by the query language of docs/log-query.md or LogQL.
// Invariants: LogQL is parsed and evaluated in the sandbox, never here; a part of a query is never ignored.
import type { FastifyRequest } from "fastify";
import { readerOf } from "../../auth/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { type RecordFilter, recordConditions } from "../../storage/logs/filter.ts";
import type { Found, Page } from "../../storage/page.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { type FilterJob, readLogFilter, type RecordsJob } from "../loki/jobs.ts";
import { refuseUnknown } from "../page-route.ts";
import type { LogRouteOptions } from "../route-parts.ts";
import { filterOf, type FilterParameters, type filterSchema } from "./log-filter-parameters.ts";
import { isLogQl } from "./log-query/parse.ts";

export interface LogSelection {
  readonly filter: RecordFilter;
  /** LogQL with stages that ClickHouse cannot evaluate; `filter` has the other conditions of the request. */
  readonly staged?: { readonly query: string; readonly leavesOut: boolean; readonly filter: RecordFilter };
}

/** Throws ApiError invalid_parameter naming the parameter. `schema`: that of the route. */
export async function readSelection(
  request: FastifyRequest,
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
  const { filter: selected, stages } = readLogFilter(await sandbox.run(readerOf(request).orgId, job));
  const filter = filterOf(others);
  const staged = stages === "none" ? {} : { staged: { query, leavesOut: stages === "filter", filter } };
  return { filter: { ...filter, also: selected.also }, ...staged };
}

/** For an answer that is counted by ClickHouse, of the records as they are stored. */
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
): Promise<Found> {
  const { range, limit, after, oldestFirst } = page;
  const conditions = recordConditions(staged.filter).map(({ text }) => text);
  const parameters = { query: staged.query };
  const job: RecordsJob = { kind: "records", parameters, conditions, page: { range, limit, after, oldestFirst: oldestFirst ?? false } };
  const answer = await sandbox.run(orgId, job, options);
  const lineEnd = answer.indexOf("\n");
  const [, time, id] = /^(\d+)\.(\d+)$/.exec(answer.toString("latin1", 0, lineEnd)) ?? [];
  return { json: answer.subarray(lineEnd + 1), next: time && id ? { time: BigInt(time), id: BigInt(id) } : undefined };
}
