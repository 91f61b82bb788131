// What Loki's endpoints have in common: how they are added, and pieces of their descriptions. Endpoints run in a sandbox process: nothing
// here imports the HTTP server.
import type { QueryOptions } from "../../admission/query-queue.ts";
import { wrongQuery } from "./literals.ts";
import { type Given, textOf } from "./parameters.ts";
import { readQuery, readSelectorAlone } from "./read-query.ts";
import type { LokiReader } from "./reader.ts";
import type { LogQuery, Query } from "./syntax.ts";

/** What a request asks for, besides its parameters. */
export interface Requested {
  readonly reader: LokiReader;
  readonly nowNs: bigint;
  /** Of the path, such as the name of a label. */
  readonly name: string | undefined;
  readonly categorize: boolean;
}

/** Reads the parameters, and returns what answers them. */
export type Endpoint = (given: Given, requested: Requested) => (orgId: string, options: QueryOptions) => Promise<Buffer>;
export type Add = (path: string, summary: string, parameters: Record<string, object>, endpoint: Endpoint) => void;

export const text = (description: string) => ({ type: "string", description });
export const TIME = "nanoseconds or seconds since 1970, or RFC 3339";
export const SPAN = {
  start: text(`${TIME}; default one hour before the end`),
  end: text(`${TIME}; default now`),
  since: text("a duration before the end"),
};
export const QUERY = text("LogQL");
export const SELECTOR = text('a selector, such as {service_name="shop"}');

export function requiredQuery(given: Given): Query {
  const query = textOf(given, "query");
  if (query === undefined) throw wrongQuery("required: LogQL");
  return readQuery(query);
}

export function requiredLogs(given: Given): LogQuery {
  const query = requiredQuery(given);
  if (query.kind !== "log") throw wrongQuery("must be a query of logs, not of metrics");
  return query;
}

export function optionalSelector(given: Given): LogQuery[] {
  const query = textOf(given, "query");
  // What an editor sends before anything is chosen.
  return query === undefined || query === "{}" ? [] : [readSelectorAlone("query", query)];
}
