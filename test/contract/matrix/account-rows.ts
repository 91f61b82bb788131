// The rows of logins and sessions, and of what does not follow from the declarations of routes of accounts.
import { randomUUID } from "node:crypto";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, invalidQuery, type Row, row, withId } from "./case.ts";
import { ASKED, made, newCookie, operator, reader, red } from "./tenants.ts";

const JSON_TYPE = { "content-type": "application/json" };

export const ACCOUNT_ROWS: Row[] = [
  row("POST", "/api/auth/login", "none", () => [
    answers(
      "wrong password",
      (url) => call("POST", url, { body: { email: "admin@red.example", password: "wrong-password" } }),
      401,
      "invalid_credentials",
    ),
    answers(
      "unknown user",
      (url) => call("POST", url, { body: { email: "unknown@red.example", password: "wrong-password" } }),
      401,
      "invalid_credentials",
    ),
    answers("no password", (url) => call("POST", url, { body: { email: "a@b" } }), 400, "invalid_field"),
    answers("not JSON", (url) => call("POST", url, { body: "{", headers: JSON_TYPE }), 400, "malformed_body"),
  ]),
  row("POST", "/api/auth/session", "none", () => [
    answers(
      "wrong password",
      (url) => call("POST", url, { body: { email: "admin@red.example", password: "wrong-password" } }),
      401,
      "invalid_credentials",
    ),
    answers("no password", (url) => call("POST", url, { body: { email: "a@b" } }), 400, "invalid_field"),
    answers("logged in", (url) => call("POST", url, { body: reader }), 204),
  ]),
  row("GET", "/api/auth/session", "none", () => [
    answers("no cookie", (url) => call("GET", url, { headers: ASKED }), 401, "invalid_token"),
    answers("a bearer token", (url) => call("GET", url, { bearer: red.token }), 401, "invalid_token"),
    answers("a cookie without the header", async (url) => call("GET", url, { headers: await newCookie() }), 401, "invalid_token"),
    answers("a cookie", async (url) => call("GET", url, { headers: { ...ASKED, ...(await newCookie()) } }), 200),
  ]),
  row("DELETE", "/api/auth/session", "none", () => [
    answers("no cookie", (url) => call("DELETE", url, { headers: ASKED }), 401, "invalid_token"),
    answers("a cookie", async (url) => call("DELETE", url, { headers: { ...ASKED, ...(await newCookie()) } }), 204),
  ]),
  // Without a provider; with one: backend/auth/sso/sso.engine.test.ts.
  ...["/api/auth/oidc/start", "/api/auth/oidc/callback"].map((path) =>
    row("GET", path, "none", () => [answers("not set up", (url) => call("GET", url), 404, "not_found")]),
  ),
  row("POST", "/api/auth/oidc/token", "none", () => [
    answers("not set up", (url) => call("POST", url, { body: { code: "a.b.c", verifier: "v".repeat(43) } }), 404, "not_found"),
    answers("no verifier", (url) => call("POST", url, { body: { code: "a.b.c" } }), 400, "invalid_field"),
  ]),
  row("POST", "/api/auth/oidc/cli", "none", () => [
    answers("not set up", (url) => call("POST", url, { body: { token: "t".repeat(43) } }), 404, "not_found"),
    answers("no token", (url) => call("POST", url, { body: {} }), 400, "invalid_field"),
  ]),
  row("PUT", "/api/auth/password", "viewer", () => [
    asUser("a wrong password", "PUT", () => red.token, 403, { current: "wrong-password", password: randomUUID() }, "forbidden"),
    asUser("a short one", "PUT", () => red.token, 400, { current: "wrong-password", password: "short" }, "invalid_field"),
  ]),
  row("POST", "/api/invitations", "admin", () => [
    asUser("a user's address", "POST", () => red.token, 409, { email: "viewer@red.example", role: "viewer" }, "conflict"),
  ]),
  row("POST", "/api/auth/invitation", "none", () => [
    answers("shown", async (url) => call("POST", url, { body: { token: await newInvitation(red, "token") } }), 200),
    answers("unknown", (url) => call("POST", url, { body: { token: "t".repeat(43) } }), 401, "invalid_credentials"),
    answers("no token", (url) => call("POST", url, { body: {} }), 400, "invalid_field"),
  ]),
  row("POST", "/api/auth/invitation/accept", "none", () => [
    answers(
      "accepted",
      async (url) => call("POST", url, { body: { token: await newInvitation(red, "token"), password: randomUUID() } }),
      204,
    ),
    answers("unknown", (url) => call("POST", url, { body: { token: "t".repeat(43), password: randomUUID() } }), 401, "invalid_credentials"),
    answers("a short password", (url) => call("POST", url, { body: { token: "t".repeat(43), password: "short" } }), 400, "invalid_field"),
  ]),
  row("GET", "/api/audit", "admin", () => [
    asUser("another tenant's", "GET", () => red.token, 403, undefined, "forbidden", withId("/api/audit?org_id={id}")),
    invalidQuery("a cursor that is none", "/api/audit?cursor=x"),
  ]),
  row("DELETE", "/api/orgs/{id}", "operator", () => [
    asUser("unknown id", "DELETE", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}?name=x")),
  ]),
  row("GET", "/api/accounts", "operator", () => [
    asUser("found", "GET", () => operator, 200, undefined, undefined, "/api/accounts?email=viewer@red.example"),
    asUser("no address", "GET", () => operator, 400, undefined, "invalid_parameter"),
  ]),
];

async function newInvitation(tenant: typeof red, field: "invitation_id" | "token"): Promise<string> {
  return await made(tenant, "/api/invitations", { email: `${randomUUID()}@invited.example`, role: "viewer" }, field);
}
