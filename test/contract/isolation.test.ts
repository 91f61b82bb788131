// Checks that no response to one organisation contains data of another, and that none can change another's data: two organisations with
// data of every kind, and every route. What a request without an id creates or reads is of the organisation of its credential, so only routes
// with an id are tried.
import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { declaredRoutes } from "../../hack/openapi.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call } from "../fixtures/processes.ts";
import { OPERATIONS } from "../attacks/every-route.ts";
import { type BrowserUser, CHANGES, problemsOfChange, problemsOfSession } from "./isolation/changes.ts";
import { leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { makeParties, type Party } from "./isolation/parties.ts";
import { BY_HAND, ISOLATED_ROUTES } from "./isolation/isolation-routes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2", INGEST_TOKENS: "true" });
let parties: [Party, Party];
let session: BrowserUser;
/** Routes of sessions that may change something. */
const BY_SESSION = (await declaredRoutes()).filter(
  ({ method, access }) => method !== "GET" && typeof access === "string" && access !== "anyone",
);

beforeAll(async () => {
  parties = await makeParties(backend, await backend.operator());
  setParties(parties);
  const [{ orgId, token: bearer }] = parties;
  const credentials = { email: `${randomUUID()}@session.example`, password: randomUUID() };
  await call("POST", `${backend.apiUrl}/api/users`, { bearer, body: { ...credentials, role: "admin" } });
  const { headers } = await call("POST", `${backend.apiUrl}/api/auth/session`, { body: credentials });
  const [cookie = ""] = String(headers.get("set-cookie")).split(";", 1);
  session = { cookie, user: `${orgId} ${encodeURIComponent(credentials.email)}` };
});

test("tries each route with an id that changes something", () => {
  const withId = [...OPERATIONS.keys()].filter((route) => !route.startsWith("GET ") && route.includes("{id}"));
  const tried = CHANGES.map(({ route }) => route);
  expect(withId.filter((route) => !tried.includes(route))).toEqual([]);
});

test("each row is of an existing route", () => {
  const rows = [...BY_HAND.map(({ path }) => `GET ${path}`), ...CHANGES.map(({ route }) => route)];
  expect(rows.filter((route) => !OPERATIONS.has(route))).toEqual([]);
});

test.each(ISOLATED_ROUTES.map((route) => [route.path, route] as const))("GET %s", async (_path, route) => {
  expect(await leaksOf(backend, route, parties)).toEqual([]);
});

test.each(CHANGES.map((change) => [change.route, change] as const))(
  "%s of another organisation changes nothing",
  async (_route, change) => {
    const [red, blue] = parties;
    expect([await problemsOfChange(backend, change, red, blue), await problemsOfChange(backend, change, blue, red)]).toEqual([[], []]);
  },
);

test.each(BY_SESSION.map(({ method, path }) => [`${method} ${path}`]))(
  "%s of a page that was loaded for another user or organisation is refused and changes nothing",
  async (route) => {
    const [owner, { orgId }] = parties;
    const [ownOrg = "", email = ""] = session.user.split(" ");
    const others = [`${orgId} ${email}`, `${ownOrg} ${encodeURIComponent("another@session.example")}`];
    expect(await problemsOfSession(backend, route, { owner, session, others })).toEqual([]);
  },
);
