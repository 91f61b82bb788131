// What Loki's routes have in common: their options, and how they are described.
import type { Guards } from "../../auth/request-identity.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { READERS } from "../../http/openapi.ts";
import type { LogStore } from "../../storage/logs/store.ts";
import type { TailTimes } from "../native/log-tail-stream.ts";
import type { JobRunner } from "../sandbox/sandbox.ts";
import type { Bounds } from "./budget.ts";

export const BASE = "/query/loki/loki/api/v1";

export interface LokiRouteOptions {
  /** Parses and evaluates LogQL, by runLokiJob. */
  readonly sandbox: JobRunner;
  readonly store: Pick<LogStore, "tail">;
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
  readonly now?: () => Date;
  /** Bounds of tails that are not those of production. */
  readonly tails?: Partial<TailTimes> & { perOrg?: number; inAll?: number };
  /** Bounds of queries that are not those of production. */
  readonly bounds?: Bounds;
}

const ANSWER = { description: "as Loki answers", type: "object", additionalProperties: true };

export function lokiSchema(summary: string, parameters: Record<string, object>, described: object = { response: { 200: ANSWER } }) {
  return {
    tags: ["loki"],
    security: READERS,
    summary: `Loki's HTTP API: ${summary}`,
    described: { querystring: { type: "object", properties: parameters }, ...described },
  };
}
