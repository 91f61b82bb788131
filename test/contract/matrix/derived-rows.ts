// The row of a route as it follows from its declaration: who is refused, and what the others get of a list, of an unknown id, and for a field
// that does not exist. A route has a row by hand only for more than that. What else is wrong with a body: the tests next to the routes. (That no id of another organisation works: test/contract/isolation.)
import { randomUUID } from "node:crypto";
import type { DeclaredRoute } from "../../../hack/openapi.ts";
import { CHANGES } from "../isolation/changes.ts";
import { type Auth, asUser, type Case, missing, type Row, row } from "./case.ts";
import { operator, red } from "./tenants.ts";

export function derivedRow({ method, path, access, isBodyClosed }: DeclaredRoute): Row {
  const auth = authOf(access);
  if (auth === "none") throw new Error(`${method} ${path}: write a row for it, because its declaration does not say whom it refuses`);
  if (method !== "GET" && (auth === "reader" || auth === "viewer"))
    throw new Error(`${method} ${path}: a change needs the role admin; write a row for one that every user may make`);
  const kinds = typeof access === "object" && "keys" in access ? [...access.keys] : undefined;
  return row(method, path, auth, () => casesOf({ method, path, auth, isBodyClosed }), { kinds });
}

export function authOf(access: DeclaredRoute["access"]): Auth {
  if (access === "anyone") return "none";
  if (typeof access === "string") return access;
  if ("keys" in access) return "signed";
  const [scheme = ""] = access.security;
  if (scheme === "signature") return "signed";
  return scheme === "installToken" ? "install token" : scheme.startsWith("ingestToken") ? "ingest token" : "none";
}

function casesOf({
  method,
  path,
  auth,
  isBodyClosed,
}: Pick<Row, "method" | "path" | "auth"> & Pick<DeclaredRoute, "isBodyClosed">): Case[] {
  if (auth === "signed" || auth === "install token" || auth === "ingest token") return [];
  const bearer = (): string => (auth === "operator" ? operator : red.token);
  if (method === "GET" && !path.includes("{")) return [asUser("answered", method, bearer, 200)];
  const unknownField = asUser("an unknown field", method, bearer, 400, { "no such field": 1 }, "invalid_field");
  const cases = isBodyClosed ? [unknownField] : [];
  if (!path.includes("{id}")) return cases;
  const change = CHANGES.find(({ route }) => route === `${method} ${path}`);
  return [...cases, ...missing(method, path, change?.body?.(randomUUID()), bearer)];
}
