// The rows of logins, users, organisations, accounts and read tokens.
import { randomUUID } from "node:crypto";
import { call } from "../../fixtures/processes.ts";
import { asUser, foreign, missing, type Row, withId } from "./case.ts";
import { ASKED, backend, blue, made, newCookie, newReadToken, operator, reader, red, viewer } from "./tenants.ts";

const JSON_TYPE = { "content-type": "application/json" };

export const ACCOUNT_ROWS: Row[] = [
  {
    method: "POST",
    path: "/api/auth/login",
    auth: "none",
    cases: () => [
      {
        name: "wrong password",
        send: (url) => call("POST", url, { body: { email: "admin@red.example", password: "wrong-password" } }),
        status: 401,
        error: "invalid_credentials",
      },
      {
        name: "unknown user",
        send: (url) => call("POST", url, { body: { email: "unknown@red.example", password: "wrong-password" } }),
        status: 401,
        error: "invalid_credentials",
      },
      { name: "no password", send: (url) => call("POST", url, { body: { email: "a@b" } }), status: 400, error: "invalid_field" },
      { name: "not JSON", send: (url) => call("POST", url, { body: "{", headers: JSON_TYPE }), status: 400, error: "malformed_body" },
    ],
  },
  {
    method: "POST",
    path: "/api/auth/session",
    auth: "none",
    cases: () => [
      {
        name: "wrong password",
        send: (url) => call("POST", url, { body: { email: "admin@red.example", password: "wrong-password" } }),
        status: 401,
        error: "invalid_credentials",
      },
      { name: "no password", send: (url) => call("POST", url, { body: { email: "a@b" } }), status: 400, error: "invalid_field" },
      { name: "logged in", send: (url) => call("POST", url, { body: reader }), status: 204 },
    ],
  },
  {
    method: "GET",
    path: "/api/auth/session",
    auth: "none",
    cases: () => [
      { name: "no cookie", send: (url) => call("GET", url, { headers: ASKED }), status: 401, error: "invalid_token" },
      { name: "a bearer token", send: (url) => call("GET", url, { bearer: red.token }), status: 401, error: "invalid_token" },
      {
        name: "a cookie without the header",
        send: async (url) => call("GET", url, { headers: await newCookie() }),
        status: 401,
        error: "invalid_token",
      },
      { name: "a cookie", send: async (url) => call("GET", url, { headers: { ...ASKED, ...(await newCookie()) } }), status: 200 },
    ],
  },
  {
    method: "DELETE",
    path: "/api/auth/session",
    auth: "none",
    cases: () => [
      { name: "no cookie", send: (url) => call("DELETE", url, { headers: ASKED }), status: 401, error: "invalid_token" },
      { name: "a cookie", send: async (url) => call("DELETE", url, { headers: { ...ASKED, ...(await newCookie()) } }), status: 204 },
    ],
  },
  // Without a provider; with one: backend/auth/sso/sso.engine.test.ts.
  ...["/api/auth/oidc/start", "/api/auth/oidc/callback"].map((path): Row => {
    return {
      method: "GET",
      path,
      auth: "none",
      cases: () => [{ name: "not set up", send: (url) => call("GET", url), status: 404, error: "not_found" }],
    };
  }),
  {
    method: "POST",
    path: "/api/auth/oidc/token",
    auth: "none",
    cases: () => [
      {
        name: "not set up",
        send: (url) => call("POST", url, { body: { code: "a.b.c", verifier: "v".repeat(43) } }),
        status: 404,
        error: "not_found",
      },
      { name: "no verifier", send: (url) => call("POST", url, { body: { code: "a.b.c" } }), status: 400, error: "invalid_field" },
    ],
  },
  {
    method: "POST",
    path: "/api/auth/oidc/cli",
    auth: "none",
    cases: () => [
      { name: "not set up", send: (url) => call("POST", url, { body: { token: "t".repeat(43) } }), status: 404, error: "not_found" },
      { name: "no token", send: (url) => call("POST", url, { body: {} }), status: 400, error: "invalid_field" },
    ],
  },
  { method: "GET", path: "/api/read-tokens", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/read-tokens",
    auth: "admin",
    cases: () => [
      asUser("default lifetime", "POST", () => red.token, 201, { name: "grafana" }),
      asUser("a year", "POST", () => red.token, 201, { name: "grafana", ttl: "1y" }),
      asUser("more than a year", "POST", () => red.token, 400, { name: "grafana", ttl: "366d" }, "invalid_field"),
      asUser("no name", "POST", () => red.token, 400, {}, "invalid_field"),
      asUser("an unknown field", "POST", () => red.token, 400, { name: "x", role: "admin" }, "invalid_field"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/read-tokens/{id}",
    auth: "admin",
    cases: () => [
      ...missing("DELETE", "/api/read-tokens/{id}"),
      foreign("DELETE", "/api/read-tokens/{id}", () => newReadToken(blue, "id")),
      {
        name: "removed",
        send: async () => call("DELETE", `${backend.apiUrl}/api/read-tokens/${await newReadToken(red, "id")}`, { bearer: red.token }),
        status: 204,
      },
    ],
  },
  { method: "GET", path: "/api/users", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/users",
    auth: "admin",
    cases: () => [
      asUser("made", "POST", () => red.token, 201, { email: `${randomUUID()}@red.example`, password: randomUUID(), role: "admin" }),
      asUser(
        "an admin grants operator",
        "POST",
        () => red.token,
        403,
        { email: `${randomUUID()}@red.example`, password: randomUUID(), role: "operator" },
        "forbidden",
      ),
      asUser("taken", "POST", () => red.token, 409, { email: "viewer@red.example", password: randomUUID(), role: "viewer" }, "conflict"),
      asUser(
        "a short password",
        "POST",
        () => red.token,
        400,
        { email: "x@red.example", password: "short", role: "viewer" },
        "invalid_field",
      ),
      asUser(
        "an unknown role",
        "POST",
        () => red.token,
        400,
        { email: "x@red.example", password: randomUUID(), role: "root" },
        "invalid_field",
      ),
    ],
  },
  {
    method: "PUT",
    path: "/api/users/{id}/password",
    auth: "admin",
    cases: () => [
      ...missing("PUT", "/api/users/{id}/password", { password: randomUUID() }),
      foreign("PUT", "/api/users/{id}/password", blueUser, { password: randomUUID() }),
    ],
  },
  {
    method: "PUT",
    path: "/api/users/{id}/role",
    auth: "admin",
    cases: () => [
      ...missing("PUT", "/api/users/{id}/role", { role: "viewer" }),
      foreign("PUT", "/api/users/{id}/role", blueUser, { role: "viewer" }),
    ],
  },
  {
    method: "DELETE",
    path: "/api/users/{id}",
    auth: "admin",
    cases: () => [...missing("DELETE", "/api/users/{id}"), foreign("DELETE", "/api/users/{id}", blueUser)],
  },
  {
    method: "PUT",
    path: "/api/auth/password",
    auth: "viewer",
    cases: () => [
      asUser("a wrong password", "PUT", () => red.token, 403, { current: "wrong-password", password: randomUUID() }, "forbidden"),
      asUser("a short one", "PUT", () => red.token, 400, { current: "wrong-password", password: "short" }, "invalid_field"),
    ],
  },
  { method: "GET", path: "/api/invitations", auth: "admin", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/invitations",
    auth: "admin",
    cases: () => [
      asUser("made", "POST", () => red.token, 201, { email: `${randomUUID()}@red.example`, role: "admin" }),
      asUser("an admin grants operator", "POST", () => red.token, 403, { email: "x@red.example", role: "operator" }, "forbidden"),
      asUser("a user's address", "POST", () => red.token, 409, { email: "viewer@red.example", role: "viewer" }, "conflict"),
      asUser("more than 30 days", "POST", () => red.token, 400, { email: "x@red.example", role: "viewer", ttl: "31d" }, "invalid_field"),
      asUser("no role", "POST", () => red.token, 400, { email: "x@red.example" }, "invalid_field"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/invitations/{id}",
    auth: "admin",
    cases: () => [
      ...missing("DELETE", "/api/invitations/{id}"),
      foreign("DELETE", "/api/invitations/{id}", async () => await newInvitation(blue, "invitation_id")),
      {
        name: "removed",
        send: async () =>
          call("DELETE", `${backend.apiUrl}/api/invitations/${await newInvitation(red, "invitation_id")}`, { bearer: red.token }),
        status: 204,
      },
    ],
  },
  {
    method: "POST",
    path: "/api/auth/invitation",
    auth: "none",
    cases: () => [
      { name: "shown", send: async (url) => call("POST", url, { body: { token: await newInvitation(red, "token") } }), status: 200 },
      {
        name: "unknown",
        send: (url) => call("POST", url, { body: { token: "t".repeat(43) } }),
        status: 401,
        error: "invalid_credentials",
      },
      { name: "no token", send: (url) => call("POST", url, { body: {} }), status: 400, error: "invalid_field" },
    ],
  },
  {
    method: "POST",
    path: "/api/auth/invitation/accept",
    auth: "none",
    cases: () => [
      {
        name: "accepted",
        send: async (url) => call("POST", url, { body: { token: await newInvitation(red, "token"), password: randomUUID() } }),
        status: 204,
      },
      {
        name: "unknown",
        send: (url) => call("POST", url, { body: { token: "t".repeat(43), password: randomUUID() } }),
        status: 401,
        error: "invalid_credentials",
      },
      {
        name: "a short password",
        send: (url) => call("POST", url, { body: { token: "t".repeat(43), password: "short" } }),
        status: 400,
        error: "invalid_field",
      },
    ],
  },
  { method: "GET", path: "/api/orgs", auth: "operator", cases: () => [asUser("listed", "GET", () => operator, 200)] },
  {
    method: "POST",
    path: "/api/orgs",
    auth: "operator",
    cases: () => [
      asUser("taken", "POST", () => operator, 409, { name: "red", admin: { email: "z@z.example", password: randomUUID() } }, "conflict"),
      asUser("no administrator", "POST", () => operator, 400, { name: "green" }, "invalid_field"),
    ],
  },
  { method: "GET", path: "/api/limits", auth: "viewer", cases: () => [asUser("own", "GET", () => viewer, 200)] },
  {
    method: "GET",
    path: "/api/usage",
    auth: "viewer",
    cases: () => [
      asUser("own", "GET", () => viewer, 200),
      asUser("too many days", "GET", () => viewer, 400, undefined, "invalid_parameter", "/api/usage?days=400"),
    ],
  },
  {
    method: "GET",
    path: "/api/audit",
    auth: "admin",
    cases: () => [
      asUser("own", "GET", () => red.token, 200),
      asUser("all", "GET", () => operator, 200),
      asUser("another tenant's", "GET", () => red.token, 403, undefined, "forbidden", withId("/api/audit?org_id={id}")),
      asUser("a cursor that is none", "GET", () => red.token, 400, undefined, "invalid_parameter", "/api/audit?cursor=x"),
    ],
  },
  {
    method: "GET",
    path: "/api/orgs/{id}/limits",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "GET", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}/limits")),
      {
        name: "known",
        send: () => call("GET", `${backend.apiUrl}/api/orgs/${blue.orgId}/limits`, { bearer: operator }),
        status: 200,
      },
    ],
  },
  {
    method: "PUT",
    path: "/api/orgs/{id}/limits",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "PUT", () => operator, 404, {}, "not_found", withId("/api/orgs/{id}/limits")),
      asUser("less than none", "PUT", () => operator, 400, { bytes_per_second: -1 }, "invalid_field"),
      asUser("an unknown limit", "PUT", () => operator, 400, { series: 1 }, "invalid_field"),
      {
        name: "set",
        send: () =>
          call("PUT", `${backend.apiUrl}/api/orgs/${blue.orgId}/limits`, { bearer: operator, body: { bytes_per_second: 1_000_000 } }),
        status: 200,
      },
    ],
  },
  { method: "GET", path: "/api/retention", auth: "viewer", cases: () => [asUser("own", "GET", () => viewer, 200)] },
  { method: "GET", path: "/api/deletions", auth: "operator", cases: () => [asUser("listed", "GET", () => operator, 200)] },
  {
    method: "GET",
    path: "/api/orgs/{id}/retention",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "GET", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}/retention")),
      {
        name: "known",
        send: () => call("GET", `${backend.apiUrl}/api/orgs/${blue.orgId}/retention`, { bearer: operator }),
        status: 200,
      },
    ],
  },
  {
    method: "PUT",
    path: "/api/orgs/{id}/retention",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "PUT", () => operator, 404, {}, "not_found", withId("/api/orgs/{id}/retention")),
      asUser("no days", "PUT", () => operator, 400, { logs_days: 0 }, "invalid_field"),
      asUser("an unknown signal", "PUT", () => operator, 400, { profiles_days: 1 }, "invalid_field"),
      {
        name: "set",
        send: () => call("PUT", `${backend.apiUrl}/api/orgs/${blue.orgId}/retention`, { bearer: operator, body: { logs_days: 20 } }),
        status: 200,
      },
    ],
  },
  {
    method: "DELETE",
    path: "/api/orgs/{id}",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "DELETE", () => operator, 404, undefined, "not_found", withId("/api/orgs/{id}?name=x")),
      {
        name: "another name",
        send: () => call("DELETE", `${backend.apiUrl}/api/orgs/${blue.orgId}?name=red`, { bearer: operator }),
        status: 409,
        error: "conflict",
      },
      {
        name: "deleted",
        send: async () => {
          const org = { name: randomUUID(), admin: { email: `${randomUUID()}@green.example`, password: randomUUID() } };
          const { json } = await call("POST", `${backend.apiUrl}/api/orgs`, { bearer: operator, body: org });
          return await call("DELETE", `${backend.apiUrl}/api/orgs/${json.org_id}?name=${org.name}`, { bearer: operator });
        },
        status: 202,
      },
    ],
  },
  {
    method: "POST",
    path: "/api/orgs/{id}/admins",
    auth: "operator",
    cases: () => [
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
      {
        name: "added",
        send: async () => {
          const orgs = (await call("GET", `${backend.apiUrl}/api/orgs`, { bearer: operator })).json as { org_id: string; name: string }[];
          const id = orgs.find(({ name }) => name === "blue")?.org_id;
          const body = { email: `${randomUUID()}@blue.example`, password: randomUUID() };
          return await call("POST", `${backend.apiUrl}/api/orgs/${id}/admins`, { bearer: operator, body });
        },
        status: 201,
      },
    ],
  },
  {
    method: "GET",
    path: "/api/accounts",
    auth: "operator",
    cases: () => [
      asUser("found", "GET", () => operator, 200, undefined, undefined, "/api/accounts?email=viewer@red.example"),
      asUser("no address", "GET", () => operator, 400, undefined, "invalid_parameter"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/accounts/{id}",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "DELETE", () => operator, 404, undefined, "not_found", withId("/api/accounts/{id}")),
      asUser("malformed id", "DELETE", () => operator, 404, undefined, "not_found", "/api/accounts/not-a-uuid"),
      {
        name: "removed",
        send: async () => {
          const body = { email: `${randomUUID()}@blue.example`, password: randomUUID(), role: "viewer" };
          const id = await made(blue, "/api/users", body, "user_id");
          return await call("DELETE", `${backend.apiUrl}/api/accounts/${id}`, { bearer: operator });
        },
        status: 204,
      },
    ],
  },
];

async function newInvitation(tenant: typeof red, field: "invitation_id" | "token"): Promise<string> {
  return await made(tenant, "/api/invitations", { email: `${randomUUID()}@invited.example`, role: "viewer" }, field);
}

async function blueUser(): Promise<string> {
  return (await call("GET", `${backend.apiUrl}/api/users`, { bearer: blue.token })).json[0].user_id;
}
