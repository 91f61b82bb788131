// The types of the matrix: a row for each endpoint and method, and the cases that most rows share. Invariant: a case has exactly one
// expected status and error code.
import { randomUUID } from "node:crypto";
import { call, type Answer } from "../../fixtures/processes.ts";
import { backend, red } from "./tenants.ts";

/** `reader`: a session of any role, or a read token; a read token is answered 403 on routes that need a role. */
export type Auth = "none" | "signed" | "ingest token" | "reader" | "viewer" | "admin" | "operator" | "install token";
export interface Case {
  name: string;
  send: (url: string) => Promise<Answer>;
  status: number;
  error?: string;
}
export interface Row {
  method: string;
  /** As in /openapi.json; `{id}` is filled by the cases, and by a random UUID in the generic ones. */
  path: string;
  auth: Auth;
  /** Kinds of keys that a signed route accepts. */
  kinds?: ("cluster" | "host" | "direct")[];
  /** The response is a stream: cases that only check the status send parameters that it refuses. */
  neverEnds?: boolean;
  cases: () => Case[];
}

export const row = (
  method: string,
  path: string,
  auth: Auth,
  cases: Row["cases"],
  options: Pick<Row, "kinds" | "neverEnds"> = {},
): Row => ({
  method,
  path,
  auth,
  cases,
  ...options,
});

export const answers = (name: string, send: Case["send"], status: number, error?: string): Case => ({ name, send, status, error });

export const asUser = (
  name: string,
  method: string,
  bearer: () => string,
  status: number,
  body?: unknown,
  error?: string,
  path?: string,
): Case =>
  answers(name, (url) => call(method, path === undefined ? url : `${backend.apiUrl}${path}`, { bearer: bearer(), body }), status, error);

/** A GET of red; `path` replaces the row's. */
export const found = (name: string, path?: string): Case => asUser(name, "GET", () => red.token, 200, undefined, undefined, path);
export const invalidQuery = (name: string, path?: string): Case =>
  asUser(name, "GET", () => red.token, 400, undefined, "invalid_parameter", path);

/** A POST of red. */
export const creates = (name: string, body?: unknown): Case => asUser(name, "POST", () => red.token, 201, body);
export const invalidBody = (name: string, body: unknown): Case => asUser(name, "POST", () => red.token, 400, body, "invalid_field");

export const withId = (path: string) => path.replace("{id}", randomUUID());
export const missing = (method: string, path: string, body?: unknown, bearer = () => red.token): Case[] => [
  asUser("unknown id", method, bearer, 404, body, "not_found", withId(path)),
  asUser("malformed id", method, bearer, 404, body, "not_found", path.replace("{id}", "not-a-uuid")),
];
