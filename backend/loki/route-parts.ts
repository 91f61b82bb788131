// What Loki's routes have in common: how they are added, and pieces of their descriptions.
import type { FastifyRequest } from "fastify";
import type { QueryOptions } from "../admission/in-turn.ts";
import type { Guards } from "../auth/request-identity.ts";
import type { Answers } from "../http/answers.ts";
import { READERS } from "../http/openapi.ts";
import type { LogStore } from "../logs/store.ts";
import type { TailTimes } from "../logs/tail-stream.ts";
import { wrongQuery } from "./literals.ts";
import { type Given, textOf } from "./parameters.ts";
import { readQuery, readSelectorAlone } from "./read-query.ts";
import type { LokiReader } from "./reader.ts";
import type { LogQuery, Query } from "./syntax.ts";

export const BASE = "/query/loki/loki/api/v1";

export interface LokiRouteOptions {
  readonly reader: LokiReader;
  readonly store: Pick<LogStore, "tail">;
  readonly answers: Answers;
  readonly guards: Pick<Guards, "reader">;
  readonly now?: () => Date;
  /** Bounds of tails that are not those of production. */
  readonly tails?: Partial<TailTimes> & { perOrg?: number; inAll?: number };
}

/** Reads what is given, and answers what asks for it. */
export type Endpoint = (given: Given, request: FastifyRequest) => (orgId: string, asked: QueryOptions) => Promise<Buffer>;
export type Get = (path: string, summary: string, parameters: Record<string, object>, ask: Endpoint) => void;

export const text = (description: string) => ({ type: "string", description });
export const TIME = "nanoseconds or seconds since 1970, or RFC 3339";
export const SPAN = {
  start: text(`${TIME}; default one hour before the end`),
  end: text(`${TIME}; default now`),
  since: text("a duration before the end"),
};
export const QUERY = text("LogQL");
export const SELECTOR = text('a selector, such as {service_name="shop"}');

const ANSWER = { description: "as Loki answers", type: "object", additionalProperties: true };

export function lokiSchema(summary: string, parameters: Record<string, object>, described: object = { response: { 200: ANSWER } }) {
  return {
    tags: ["loki"],
    security: READERS,
    summary: `Loki's HTTP API: ${summary}`,
    described: { querystring: { type: "object", properties: parameters }, ...described },
  };
}

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
