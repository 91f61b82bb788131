// The row of a route as it follows from its declaration: who is refused, and what the others get of a list and of an unknown id. A route
// has a row by hand only for more than that. (That no id of another organisation works: test/contract/isolation.)
import { randomUUID } from "node:crypto";
import type { DeclaredRoute } from "../../../hack/openapi.ts";
import { CHANGES } from "../isolation/changes.ts";
import { type Auth, asUser, type Case, missing, type Row, row } from "./case.ts";
import { operator, red } from "./tenants.ts";

export function derivedRow({ method, path, access }: DeclaredRoute): Row {
  const auth = authOf(access);
  if (auth === "none") throw new Error(`${method} ${path}: write a row for it, because its declaration does not say whom it refuses`);
  if (method !== "GET" && (auth === "reader" || auth === "viewer"))
    throw new Error(`${method} ${path}: a change needs the role admin; write a row for one that every user may make`);
  const kinds = typeof access === "object" && "keys" in access ? [...access.keys] : undefined;
  return row(method, path, auth, () => casesOf(method, path, auth), { kinds });
}

export function authOf(access: DeclaredRoute["access"]): Auth {
  if (access === "anyone") return "none";
  if (typeof access === "string") return access;
  if ("keys" in access) return "signed";
  const [scheme = ""] = access.security;
  if (scheme === "signature") return "signed";
  return scheme === "installToken" ? "install token" : scheme.startsWith("ingestToken") ? "ingest token" : "none";
}

function casesOf(method: string, path: string, auth: Auth): Case[] {
  if (auth === "signed" || auth === "install token" || auth === "ingest token") return [];
  const bearer = (): string => (auth === "operator" ? operator : red.token);
  if (method === "GET" && !path.includes("{")) return [asUser("answered", method, bearer, 200)];
  if (!path.includes("{id}")) return [];
  const change = CHANGES.find(({ route }) => route === `${method} ${path}`);
  return missing(method, path, change?.body?.(randomUUID()), bearer);
}
