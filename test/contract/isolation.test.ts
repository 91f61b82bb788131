// Checks that no response to one organisation contains data of another, and that none can change another's data: two organisations with
// data of every kind, and every route. What a request without an id creates or reads is of the organisation of its credential, so only routes
// with an id are tried.
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { OPERATIONS } from "../attacks/every-route.ts";
import { CHANGES, problemsOfChange } from "./isolation/changes.ts";
import { leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { makeParties, type Party } from "./isolation/parties.ts";
import { BY_HAND, ISOLATED_ROUTES } from "./isolation/isolation-routes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2", INGEST_TOKENS: "true" });
let parties: [Party, Party];

beforeAll(async () => {
  parties = await makeParties(backend, await backend.operator());
  setParties(parties);
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
