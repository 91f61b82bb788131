// Parses the query string of a request after authentication: Fastify does it before the first hook, and 60 KB of parameters take 10 ms.
// Invariants: a request without a credential costs no more than a short query string; `request.query` is a text until `readQuery`.
import type { IncomingMessage } from "node:http";
import { parse } from "node:querystring";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { MAX_QUERY_PARAMETERS, MAX_UNAUTHENTICATED_QUERY_LENGTH } from "./http-limits.ts";

const LONG_URL_CHARACTERS = 1000;

/** For Fastify's `querystringParser`. */
export function keepText(text: string): Record<string, unknown> {
  return text as unknown as Record<string, unknown>;
}

/** For `rewriteUrl`: Fastify's router for unknown paths has no setting for its parser of query strings, so that it gets no long one. */
export function withoutUnreadQuery(app: FastifyInstance, { url = "", method = "" }: IncomingMessage): string {
  const path = url.length > LONG_URL_CHARACTERS ? url.split("?", 1)[0] : undefined;
  return path === undefined || app.findRoute({ method, url: path }) ? url : path;
}

/** Replaces the text by the parameters. Throws ApiError invalid_parameter and head_too_large. */
export function readQuery(request: FastifyRequest, isAuthenticated: boolean): void {
  const text = request.query as string;
  if (!isAuthenticated && text.length > MAX_UNAUTHENTICATED_QUERY_LENGTH)
    throw new ApiError("head_too_large", `without a credential, a query string has at most ${MAX_UNAUTHENTICATED_QUERY_LENGTH} characters`);
  const isSender = (request.signingKey ?? request.ingestSender) !== undefined; // The query string of telemetry is ignored.
  if (!isSender && text.split("&", MAX_QUERY_PARAMETERS + 1).length > MAX_QUERY_PARAMETERS)
    throw new ApiError("invalid_parameter", `a query string has at most ${MAX_QUERY_PARAMETERS} parameters`);
  request.query = parse(text, "&", "=", { maxKeys: MAX_QUERY_PARAMETERS });
}

/** All parameters of a URL, as texts. A value may contain further question marks, as `curl` and browsers send them. */
export function parametersOf({ url }: { readonly url: string }): URLSearchParams {
  const at = url.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : url.slice(at + 1));
}
