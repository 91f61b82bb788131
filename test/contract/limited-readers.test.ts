// Checks that a reader who is limited to one namespace gets nothing of another one of the same organisation: every GET route of the
// declarations, by a session and by a read token. Then each condition is removed, and the same check finds the other namespace's data.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { declaredRoutes } from "../../hack/openapi.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { startBackend } from "../fixtures/backend-process.ts";
import { call, temporaryFolder } from "../fixtures/processes.ts";
import { leaksNow, leaksOf } from "./isolation/check.ts";
import { setParties } from "./isolation/follow.ts";
import { ISOLATED_ROUTES, type IsolatedRoute } from "./isolation/isolation-routes.ts";
import { LIMIT_CHANGES, LIMIT_CONDITIONS } from "./isolation/limit-mutants.ts";
import { copySources, makeSwitchable, remove } from "./isolation/mutants.ts";
import { type LimitedParty, makeLimitedParties, SHARED_SERVICE } from "./isolation/parties.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2", INGEST_TOKENS: "true", JWT_TTL: "2h" });
const folder = temporaryFolder();
const ALL = await declaredRoutes();
const DECLARED = ALL.filter(({ method }) => method === "GET");
const declarationOf = ({ path }: IsolatedRoute) => DECLARED.find((declared) => declared.path === path);
/** Routes of sessions and read tokens. */
const READ = ISOLATED_ROUTES.filter(
  (route) => typeof declarationOf(route)?.access === "string" && declarationOf(route)?.access !== "anyone",
);
const FILTERED = ISOLATED_ROUTES.filter((route) => declarationOf(route)?.limited === "filtered");
const BY_TOKEN = FILTERED.filter((route) => declarationOf(route)?.access === "reader");
const REFUSED = READ.filter((route) => !FILTERED.includes(route));
const AT_ONCE = 6;
/** What people of the organisation wrote, which is no telemetry. */
const WRITTEN = /^\/api\/(?:dashboards|views)/;
let parties: [LimitedParty, LimitedParty];
let byToken: [LimitedParty, LimitedParty];

beforeAll(async () => {
  parties = await makeLimitedParties(backend, await backend.operator());
  byToken = parties.map((party) => ({ ...party, token: party.readToken })) as typeof parties;
  setParties(parties);
});
afterAll(() => folder[Symbol.dispose]());

test("most routes that read are filtered", () => {
  expect(FILTERED.length).toBeGreaterThan(60);
  expect(REFUSED.length).toBeGreaterThan(15);
});

test("a route that is filtered and not read here has the path of one that is, or shows no telemetry, or is tested below", async () => {
  const others = [...ALL, ...(await declaredRoutes(true))].filter(({ limited }) => limited === "filtered");
  const unread = others.filter(({ path }) => !FILTERED.some((route) => route.path === path)).map(({ method, path }) => `${method} ${path}`);
  // The wildcard is another spelling of `services/{service}/operations`.
  expect(unread).toEqual(["PUT /api/auth/password", "POST /mcp", "GET /query/jaeger/api/services/*"]);
});

test.each(FILTERED.filter(({ path }) => !WRITTEN.test(path)).map((route) => [route.path, route] as const))(
  "GET %s shows a limited user its namespace alone",
  async (_path, route) => {
    expect(await leaksOf(backend, route, parties)).toEqual([]);
  },
);

test.each(BY_TOKEN.map((route) => [route.path, route] as const))(
  "GET %s shows a limited read token its namespace alone",
  async (_path, route) => {
    setParties(byToken);
    expect(await leaksOf(backend, route, byToken)).toEqual([]);
    setParties(parties);
  },
);

test.each(REFUSED.map((route) => [route.path, route] as const))("GET %s refuses a limited reader", async (_path, route) => {
  const [red, blue] = parties;
  for (const bearer of [red.token, red.readToken]) {
    const answer = await call("GET", `${backend.apiUrl}${(route.of ?? (() => route.path))(blue)}`, { bearer });
    expect(answer).toMatchObject({ status: 403, json: { error: "forbidden" } });
  }
});

/** Tools with arguments for which they answer with the namespace of the reader. */
const TOOLS: Readonly<Record<string, object>> = {
  search_logs: {},
  log_fields: {},
  log_patterns: {},
  search_traces: {},
  list_services: {},
  service_map: {},
  list_operations: { service: SHARED_SERVICE },
  search_metrics: { contains: "of" },
  query_metrics: { query: 'last_over_time({__name__=~"of.*"}[1h])' },
  list_alerts: {},
};

test.each(Object.entries(TOOLS))("the MCP tool %s shows a limited read token its namespace alone", async (name, given) => {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } };
  const [red, blue] = byToken;
  for (const [asker, other] of [
    [red, blue],
    [blue, red],
  ] as const) {
    const headers = { authorization: `Bearer ${asker.token}`, accept: "application/json, text/event-stream" };
    // Alerts fire some seconds after a start.
    const text = await backend.shows(`${name} shows something`, async () => {
      const answer = await call("POST", `${backend.apiUrl}/mcp`, { headers, body });
      return asker.markers.some((marker) => answer.text.includes(marker)) && answer.text;
    });
    expect(other.markers.filter((marker) => text.includes(marker))).toEqual([]);
  }
});

describe("without a condition", () => {
  let mutant: AsyncDisposable;

  beforeAll(async () => {
    await backend.end();
    const program = copySources(folder.path);
    makeSwitchable(folder.path, [], LIMIT_CHANGES);
    mutant = await startBackend(backend.place, [], program);
  });
  afterAll(() => mutant?.[Symbol.asyncDispose]());

  /** The routes that show the other namespace. */
  async function leaksWithout(removed: readonly string[], routes = READ): Promise<string[]> {
    remove(folder.path, removed);
    const leaking: string[] = [];
    const waiting = routes.values();
    const askInTurn = async (): Promise<void> => {
      for (const route of waiting) if ((await leaksNow(backend, route, parties)).length > 0) leaking.push(route.path);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, askInTurn));
    return leaking;
  }

  test("of all of them, none is missing in the copy", async () => {
    expect((await leaksWithout([])).filter((path) => !WRITTEN.test(path))).toEqual([]);
  });

  test.each(LIMIT_CONDITIONS)("%s: other rows are seen", async (condition) => {
    // Alerts fire again some seconds after a start.
    const leaking = await backend.shows(`other rows without ${condition}`, async () => {
      const paths = (await leaksWithout([condition])).filter((path) => !WRITTEN.test(path));
      return paths.length > 0 && paths;
    });
    expect(leaking).not.toEqual([]);
  });

  test("all filtered routes that show telemetry leak without all conditions", async () => {
    let left = FILTERED.filter(({ path, shows }) => shows !== "nothing" && path !== "/api/auth/session");
    const leaksOfAll = async () => {
      const leaking = new Set(await leaksWithout(LIMIT_CONDITIONS, left));
      left = left.filter(({ path }) => !leaking.has(path));
      return left.map(({ path }) => path);
    };
    await expect.poll(leaksOfAll, { timeout: 200_000 }).toEqual([]);
  });
});
