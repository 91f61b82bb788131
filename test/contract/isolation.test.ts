// Checks that no response to one organisation contains data of another, and that none can change another's data: two organisations with
// data of every kind, and every route. What a request without an id creates or reads is of the organisation of its credential, so only routes
// with an id are tried.
// Then a forgotten tenant condition is simulated: the backend runs without the conditions that routes contain, and no organisation gets
// another's data, because the lower layer adds the conditions again. Without that layer too, the same check finds a leak in nearly every
// route, which proves that the check works. MUTANTS=each prints for each condition which routes need it when the lower layer is off.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { declaredRoutes } from "../../hack/openapi.ts";
import { OPERATIONS } from "../attacks/every-route.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { startBackend } from "../fixtures/backend-process.ts";
import { call, temporaryFolder } from "../fixtures/processes.ts";
import { type BrowserUser, type Change, CHANGES, problemsOfChange, problemsOfSession } from "./isolation/changes.ts";
import { leaksNow, leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { BY_HAND, ISOLATED_ROUTES, type IsolatedRoute } from "./isolation/isolation-routes.ts";
import { copySources, findConditions, LAYER_BELOW, makeSwitchable, remove, takeUsed } from "./isolation/mutants.ts";
import { makeParties, type Party } from "./isolation/parties.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2", INGEST_TOKENS: "true", JWT_TTL: "2h" });
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

describe("without conditions", () => {
  const folder = temporaryFolder();
  const conditions = findConditions();
  const ALL = conditions.map(({ name }) => name);
  const AT_ONCE = 6;
  let mutant: AsyncDisposable;

  beforeAll(async () => {
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
    return LEAKING.has(route.path) ? await backend.shows(`${route.path} leaks`, leaks) : await askNow(route);
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
});
