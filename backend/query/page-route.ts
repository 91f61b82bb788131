// Helpers of all query routes: parameters that a schema cannot describe, forms, queries of the caller's organisation, and pages with a link
// to the next. Invariant: a client that disconnects is not a failure, and its query is cancelled.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { goneSignal } from "../http/http-client.ts";
import { readerOf } from "../http/request-identity.ts";
import type { QueryOptions } from "../admission/query-queue.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import type { PageResult } from "../storage/page.ts";
import { nextLink, type Page } from "../storage/page.ts";
import { MAX_FORM_BYTES } from "./query-limits.ts";

/** The warning in a response without the rows of a shard (`CLICKHOUSE_PARTIAL_ANSWERS`). */
export const PARTIAL = "a shard of the log and trace store is unavailable: rows are missing";

type Query<T> = (orgId: string, options: QueryOptions) => Promise<T>;

/** Returns JSON in chunks. */
export type JsonQuery = Query<readonly Buffer[]>;

/** Sends the page that `ask` finds, with a Link to the next one, within the ResponseBudget. */
export async function answerPage(
  request: FastifyRequest,
  reply: FastifyReply,
  { answers, page, ask }: { answers: ResponseBudget; page: Page; ask: Query<PageResult> },
): Promise<FastifyReply> {
  return answerJson(request, reply, {
    answers,
    ask: async (orgId, options) => {
      const found = await ask(orgId, options);
      if (found.next) void reply.header("link", nextLink(request, page, found.next));
      return [found.json];
    },
  });
}

/** Sends the JSON that `ask` returns in chunks, within the ResponseBudget. */
export async function answerJson(
  request: FastifyRequest,
  reply: FastifyReply,
  { answers, ask }: { answers: ResponseBudget; ask: JsonQuery },
): Promise<FastifyReply> {
  return answerReader(request, reply, answers, async (orgId, options) => {
    const onPartial = (): void => void reply.header("warning", `199 atherops "${PARTIAL}"`);
    const pieces = await ask(orgId, { ...options, onPartial });
    void reply.type("application/json; charset=utf-8");
    return answers.send(orgId, reply, pieces);
  });
}

/** Sends what `answer` returns for the caller's organisation, or 499 if the client has disconnected. */
export async function answerReader(
  request: FastifyRequest,
  reply: FastifyReply,
  answers: ResponseBudget,
  answer: Query<FastifyReply>,
): Promise<FastifyReply> {
  const { orgId, labelLimits } = readerOf(request);
  const signal = goneSignal(reply);
  try {
    return await answer(orgId, { labelLimits, signal, admit: () => answers.admit(orgId, reply) });
  } catch (error) {
    if (signal.aborted) return reply.code(499).send();
    throw error;
  }
}

/** Ignoring an unknown filter would return everything. Throws ApiError invalid_parameter that names the first unknown parameter. */
export function refuseUnknown(request: FastifyRequest, known: Readonly<Record<string, unknown>>, prefixes: readonly string[]): void {
  for (const name of Object.keys(request.query as object)) {
    if (Object.hasOwn(known, name) || prefixes.some((prefix) => name.startsWith(prefix) && name.length > prefix.length)) continue;
    const names = [...Object.keys(known), ...prefixes.map((prefix) => `${prefix}<key>`)].join(", ");
    throw new ApiError("invalid_parameter", `${name.slice(0, 100)}: no such parameter; there is ${names}`);
  }
}

/** Parameters such as label.<key>=<value>, each as key and value. */
export function readPrefixed(parameters: object, prefix: string): [key: string, value: string][] {
  return Object.entries(parameters)
    .filter(([name]) => name.startsWith(prefix))
    .flatMap(([name, values]) => [values as string | string[]].flat().map((value): [string, string] => [name.slice(prefix.length), value]));
}

/** For the declaration of a route that accepts a form. Any other body is rejected; a request without a body has an empty form. */
export const FORM = { consumes: ["application/x-www-form-urlencoded"], bodyIsOptional: true };

/** The routes of `scope` get URLSearchParams as their body. Throws ApiError body_too_large. */
export function addFormParser(scope: FastifyInstance): void {
  scope.addContentTypeParser(
    "application/x-www-form-urlencoded",
    async (request: FastifyRequest) => new URLSearchParams((await scope.smallBodies.read(request, MAX_FORM_BYTES)).toString("utf8")),
  );
}

/** The fields of the form in the body; empty if the body is not a form. */
export function formFields(request: FastifyRequest): URLSearchParams {
  return request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
}
