// What one organisation stores is in no answer to another: two organisations with data of every kind, and every GET route that there is.
// A new route fails the first test until test/contract/isolation/routes.ts has it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { ROOT } from "../fixtures/processes.ts";
import { leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { makeParties, type Party } from "./isolation/parties.ts";
import { ISOLATED_ROUTES } from "./isolation/routes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2" });
let parties: [Party, Party];

beforeAll(async () => {
  parties = await makeParties(backend, await backend.operator());
  setParties(parties);
});

test("every GET route is asked", () => {
  const document = JSON.parse(readFileSync(join(ROOT, "docs/openapi.json"), "utf8")) as { paths: Record<string, object> };
  const served = Object.entries(document.paths).flatMap(([path, methods]) => ("get" in methods ? [path] : []));
  expect(ISOLATED_ROUTES.map(({ path }) => path).sort()).toEqual(served.sort());
});

test.each(ISOLATED_ROUTES.map((route) => [route.path, route] as const))("GET %s", async (_path, route) => {
  expect(await leaksOf(backend, route, parties)).toEqual([]);
});
