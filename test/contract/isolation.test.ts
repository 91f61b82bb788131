// Checks that no response to one organisation contains data of another, and that none can change another's data: two organisations with
// data of every kind, and every route. A new route fails one of the first two tests until test/contract/isolation/{routes,changes}.ts has
// it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { ROOT } from "../fixtures/processes.ts";
import { CHANGES, problemsOfChange, WITHOUT_RESOURCE } from "./isolation/changes.ts";
import { leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { makeParties, type Party } from "./isolation/parties.ts";
import { ISOLATED_ROUTES } from "./isolation/routes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2", INGEST_TOKENS: "true" });
let parties: [Party, Party];

beforeAll(async () => {
  parties = await makeParties(backend, await backend.operator());
  setParties(parties);
});

const DOCUMENT = JSON.parse(readFileSync(join(ROOT, "docs/openapi.json"), "utf8")) as { paths: Record<string, object> };
const SERVED = Object.entries(DOCUMENT.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => [method, path] as const));

test("every GET route is asked", () => {
  const served = SERVED.flatMap(([method, path]) => (method === "get" ? [path] : []));
  expect(ISOLATED_ROUTES.map(({ path }) => path).sort()).toEqual(served.sort());
});

test("every route that changes something is tried", () => {
  const served = SERVED.flatMap(([method, path]) => (method === "get" ? [] : [`${method.toUpperCase()} ${path}`]));
  expect([...CHANGES.map(({ route }) => route), ...WITHOUT_RESOURCE].sort()).toEqual(served.sort());
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
