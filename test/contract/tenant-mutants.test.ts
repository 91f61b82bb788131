// Simulates a forgotten tenant condition: the backend runs without the conditions that routes contain, and no organisation gets another's
// data, because the lower layer adds the conditions again. Without that layer too, the same check finds a leak in nearly every route, which
// proves that the check works. MUTANTS=each prints for each condition which routes need it when the lower layer is off.
import { afterAll, beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { startBackend } from "../fixtures/backend-process.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { type Change, CHANGES, problemsOfChange } from "./isolation/changes.ts";
import { leaksNow, leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { copySources, findConditions, LAYER_BELOW, makeSwitchable, remove, takeUsed } from "./isolation/mutants.ts";
import { makeParties, type Party } from "./isolation/parties.ts";
import { ISOLATED_ROUTES, type IsolatedRoute } from "./isolation/isolation-routes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2", INGEST_TOKENS: "true", JWT_TTL: "2h" });
const folder = temporaryFolder();
const conditions = findConditions();
const ALL = conditions.map(({ name }) => name);
const AT_ONCE = 6;
let mutant: AsyncDisposable;
let parties: [Party, Party];

beforeAll(async () => {
  parties = await makeParties(backend, await backend.operator());
  setParties(parties);
  // All of it is there before a mutant reads it.
  for (const route of ISOLATED_ROUTES) await leaksOf(backend, route, parties);
  await backend.end();
  const program = copySources(folder.path);
  makeSwitchable(folder.path, conditions);
  mutant = await startBackend(backend.place, [], program);
});
afterAll(async () => {
  await mutant[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

type Ask = (route: IsolatedRoute) => Promise<string[]>;

/** The routes to request; all by default. */
interface Asked {
  readonly routes?: readonly IsolatedRoute[];
  readonly changes?: readonly Change[];
}

/** Route → what leaked, of the data that the unchanged backend has stored, or what another organisation changed. */
async function leaksWithout(
  removed: readonly string[],
  ask: Ask,
  { routes = ISOLATED_ROUTES, changes = CHANGES }: Asked = {},
): Promise<Map<string, string>> {
  remove(folder.path, removed);
  const leaks = new Map<string, string>();
  const waiting = routes.values();
  const askInTurn = async (): Promise<void> => {
    for (const route of waiting) for (const text of await ask(route)) leaks.set(route.path, text);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, askInTurn));
  for (const change of changes) for (const text of await problemsOfChange(backend, change, ...parties)) leaks.set(change.route, text);
  return leaks;
}

const askUntilOwn: Ask = async (route) => await leaksOf(backend, route, parties);
const askNow: Ask = async (route) => await leaksNow(backend, route, parties);
/** Alerts fire again some seconds after a start. */
const askUntilLeak: Ask = async (route) => {
  const leaks = async () => {
    const found = await askNow(route);
    return found.length > 0 && found;
  };
  return LEAKING.has(route.path) ? await eventually(`${route.path} leaks`, leaks) : await askNow(route);
};

/** They ask for the one user, host or cluster of a session or a key, or for the one group of the evaluator that has the organisation's name. */
const BY_OTHER_MEANS = new Set([
  "/api/auth/session",
  "/api/clusters/{id}/config",
  "/api/v1/agents/{id}/config",
  "/alerting/prometheus/api/v1/alerts",
  "/query/prometheus/api/v1/alerts",
]);
const LEAKING = new Set(
  ISOLATED_ROUTES.filter(({ path, shows }) => shows !== "nothing" && !BY_OTHER_MEANS.has(path)).map(({ path }) => path),
);

test("without the explicit conditions, the layer below isolates organisations", async () => {
  expect(conditions.length).toBeGreaterThan(60);
  expect([...(await leaksWithout(ALL, askUntilOwn))]).toEqual([]);
});

/** Routes for operators are refused by the role; an e-mail address belongs to one user in the whole installation. */
const CHANGING = CHANGES.filter(({ foreign }) => foreign !== 403 && foreign !== 409).map(({ route }) => route);

test("without the layer below as well, the check finds a leak in each route that reads, and a change by each that writes", async () => {
  const leaking = await leaksWithout([...ALL, LAYER_BELOW], askUntilLeak);
  expect(new Set(leaking.keys())).toEqual(new Set([...LEAKING, ...CHANGING]));
});

/** No statement of metrics has a condition by hand. */
const BY_LAYER_ALONE = /^\/query\/prometheus\/api\/v1\/(?:label|metadata|query|series)/;
/** More changes use the conditions of lists, which each change compares. */
const MOST_CHANGES = CHANGES.length / 2;
let usedBy: { readonly routes: Map<IsolatedRoute, Set<string>>; readonly changes: Map<Change, Set<string>> } | undefined;

/** Which conditions each request has in its statements. */
async function findUses(): Promise<NonNullable<typeof usedBy>> {
  remove(folder.path, []);
  const [routes, changes] = [new Map<IsolatedRoute, Set<string>>(), new Map<Change, Set<string>>()];
  takeUsed(folder.path);
  for (const route of ISOLATED_ROUTES) {
    await askNow(route);
    routes.set(route, takeUsed(folder.path));
  }
  for (const change of CHANGES) {
    await problemsOfChange(backend, change, ...parties);
    changes.set(change, takeUsed(folder.path));
  }
  return { routes, changes };
}

async function askedFor(name: string): Promise<Asked> {
  usedBy ??= await findUses();
  const routes = [...usedBy.routes].filter(([, used]) => used.has(name)).map(([route]) => route);
  const changes = [...usedBy.changes].filter(([, used]) => used.has(name)).map(([change]) => change);
  return { routes, changes: changes.length > MOST_CHANGES ? [] : changes };
}

const each = process.env["MUTANTS"] === "each" ? conditions : [];
test.each(each.map((condition) => [condition.name, condition.text] as const))("%s: %s", async (name, text) => {
  const asked = await askedFor(name);
  const leaks = await leaksWithout([name, LAYER_BELOW], askNow, asked);
  const seen = [...leaks.keys()].filter((route) => !BY_LAYER_ALONE.test(route));
  console.log(`| ${name} | ${text} | ${(asked.routes?.length ?? 0) + (asked.changes?.length ?? 0)} | ${seen.join(", ") || "none"} |`);
  const routes = ISOLATED_ROUTES.filter(({ path }) => seen.includes(path));
  expect([...(await leaksWithout([name], askNow, { routes, changes: CHANGES.filter(({ route }) => seen.includes(route)) }))]).toEqual([]);
});
