// The rows of logins, users, organisations, accounts and read tokens.
import { randomUUID } from "node:crypto";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, creates, found, invalidBody, invalidQuery, type Row, row, withId } from "./case.ts";
import { ASKED, backend, blue, made, newCookie, operator, reader, red, viewer } from "./tenants.ts";

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
  row("POST", "/api/read-tokens", "admin", () => [
    creates("default lifetime", { name: "grafana" }),
    creates("a year", { name: "grafana", ttl: "1y" }),
    invalidBody("more than a year", { name: "grafana", ttl: "366d" }),
    invalidBody("no name", {}),
    invalidBody("an unknown field", { name: "x", role: "admin" }),
  ]),
  row("POST", "/api/users", "admin", () => [
    creates("made", { email: `${randomUUID()}@red.example`, password: randomUUID(), role: "admin" }),
    asUser(
      "an admin grants operator",
      "POST",
      () => red.token,
      403,
      { email: `${randomUUID()}@red.example`, password: randomUUID(), role: "operator" },
      "forbidden",
    ),
    asUser("taken", "POST", () => red.token, 409, { email: "viewer@red.example", password: randomUUID(), role: "viewer" }, "conflict"),
    invalidBody("a short password", { email: "x@red.example", password: "short", role: "viewer" }),
    invalidBody("an unknown role", { email: "x@red.example", password: randomUUID(), role: "root" }),
  ]),
  row("PUT", "/api/auth/password", "viewer", () => [
    asUser("a wrong password", "PUT", () => red.token, 403, { current: "wrong-password", password: randomUUID() }, "forbidden"),
    asUser("a short one", "PUT", () => red.token, 400, { current: "wrong-password", password: "short" }, "invalid_field"),
  ]),
  row("POST", "/api/invitations", "admin", () => [
    creates("made", { email: `${randomUUID()}@red.example`, role: "admin" }),
    asUser("an admin grants operator", "POST", () => red.token, 403, { email: "x@red.example", role: "operator" }, "forbidden"),
    asUser("a user's address", "POST", () => red.token, 409, { email: "viewer@red.example", role: "viewer" }, "conflict"),
    invalidBody("more than 30 days", { email: "x@red.example", role: "viewer", ttl: "31d" }),
    invalidBody("no role", { email: "x@red.example" }),
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
  row("POST", "/api/orgs", "operator", () => [
    asUser("taken", "POST", () => operator, 409, { name: "red", admin: { email: "z@z.example", password: randomUUID() } }, "conflict"),
    asUser("no administrator", "POST", () => operator, 400, { name: "green" }, "invalid_field"),
  ]),
  row("GET", "/api/usage", "viewer", () => [
    asUser("own", "GET", () => viewer, 200),
    asUser("too many days", "GET", () => viewer, 400, undefined, "invalid_parameter", "/api/usage?days=400"),
  ]),
  row("GET", "/api/orgs/usage", "operator", () => [
    asUser("of all", "GET", () => operator, 200),
    asUser("too many days", "GET", () => operator, 400, undefined, "invalid_parameter", "/api/orgs/usage?days=400"),
  ]),
  row("GET", "/api/audit", "admin", () => [
    found("own"),
    asUser("all", "GET", () => operator, 200),
    asUser("another tenant's", "GET", () => red.token, 403, undefined, "forbidden", withId("/api/audit?org_id={id}")),
    invalidQuery("a cursor that is none", "/api/audit?cursor=x"),
  ]),
  row("GET", "/api/orgs/{id}/limits", "operator", () => [
    asUser("unknown id", "GET", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}/limits")),
    answers("known", () => call("GET", `${backend.apiUrl}/api/orgs/${blue.orgId}/limits`, { bearer: operator }), 200),
  ]),
  row("PUT", "/api/orgs/{id}/limits", "operator", () => [
    asUser("unknown id", "PUT", () => operator, 404, {}, "not_found", withId("/api/orgs/{id}/limits")),
    asUser("less than none", "PUT", () => operator, 400, { bytes_per_second: -1 }, "invalid_field"),
    asUser("an unknown limit", "PUT", () => operator, 400, { series: 1 }, "invalid_field"),
    answers(
      "set",
      () => call("PUT", `${backend.apiUrl}/api/orgs/${blue.orgId}/limits`, { bearer: operator, body: { bytes_per_second: 1_000_000 } }),
      200,
    ),
  ]),
  row("GET", "/api/orgs/{id}/retention", "operator", () => [
    asUser("unknown id", "GET", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}/retention")),
    answers("known", () => call("GET", `${backend.apiUrl}/api/orgs/${blue.orgId}/retention`, { bearer: operator }), 200),
  ]),
  row("PUT", "/api/orgs/{id}/retention", "operator", () => [
    asUser("unknown id", "PUT", () => operator, 404, {}, "not_found", withId("/api/orgs/{id}/retention")),
    asUser("no days", "PUT", () => operator, 400, { logs_days: 0 }, "invalid_field"),
    asUser("an unknown signal", "PUT", () => operator, 400, { profiles_days: 1 }, "invalid_field"),
    answers(
      "set",
      () => call("PUT", `${backend.apiUrl}/api/orgs/${blue.orgId}/retention`, { bearer: operator, body: { logs_days: 20 } }),
      200,
    ),
  ]),
  row("DELETE", "/api/orgs/{id}", "operator", () => [
    asUser("unknown id", "DELETE", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}?name=x")),
    answers(
      "another name",
      () => call("DELETE", `${backend.apiUrl}/api/orgs/${blue.orgId}?name=red`, { bearer: operator }),
      409,
      "conflict",
    ),
    answers(
      "deleted",
      async () => {
        const org = { name: randomUUID(), admin: { email: `${randomUUID()}@green.example`, password: randomUUID() } };
        const { json } = await call("POST", `${backend.apiUrl}/api/orgs`, { bearer: operator, body: org });
        return await call("DELETE", `${backend.apiUrl}/api/orgs/${json.org_id}?name=${org.name}`, { bearer: operator });
      },
      202,
    ),
  ]),
  row("POST", "/api/orgs/{id}/admins", "operator", () => [
    asUser(
      "unknown id",
      "POST",
      () => operator,
      404,
      { email: "x@x.example", password: randomUUID() },
      "not_found",
      withId("/api/orgs/{id}/admins"),
    ),
    asUser("no password", "POST", () => operator, 400, { email: "x@x.example" }, "invalid_field"),
    answers(
      "added",
      async () => {
        const orgs = (await call("GET", `${backend.apiUrl}/api/orgs`, { bearer: operator })).json as { org_id: string; name: string }[];
        const id = orgs.find(({ name }) => name === "blue")?.org_id;
        const body = { email: `${randomUUID()}@blue.example`, password: randomUUID() };
        return await call("POST", `${backend.apiUrl}/api/orgs/${id}/admins`, { bearer: operator, body });
      },
      201,
    ),
  ]),
  row("GET", "/api/accounts", "operator", () => [
    asUser("found", "GET", () => operator, 200, undefined, undefined, "/api/accounts?email=viewer@red.example"),
    asUser("no address", "GET", () => operator, 400, undefined, "invalid_parameter"),
  ]),
  row("DELETE", "/api/accounts/{id}", "operator", () => [
    asUser("unknown id", "DELETE", () => operator, 404, undefined, "not_found", withId("/api/accounts/{id}")),
    asUser("malformed id", "DELETE", () => operator, 404, undefined, "not_found", "/api/accounts/not-a-uuid"),
    answers(
      "removed",
      async () => {
        const body = { email: `${randomUUID()}@blue.example`, password: randomUUID(), role: "viewer" };
        const id = await made(blue, "/api/users", body, "user_id");
        return await call("DELETE", `${backend.apiUrl}/api/accounts/${id}`, { bearer: operator });
      },
      204,
    ),
  ]),
];

async function newInvitation(tenant: typeof red, field: "invitation_id" | "token"): Promise<string> {
  return await made(tenant, "/api/invitations", { email: `${randomUUID()}@invited.example`, role: "viewer" }, field);
}
