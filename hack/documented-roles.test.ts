// The role that each route declares is the one that docs/contract.md documents. The contract matrix checks that a backend enforces the
// declaration, so that a route with a wrong role fails here, and one that does not enforce it fails there.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { declaredRoutes } from "./openapi.ts";

const PAGE = readFileSync(join(import.meta.dirname, "../docs/contract.md"), "utf8");

/** Sections whose tables have no column for the role: their routes, the sentence of the page, and who may read and who may change. */
const SECTIONS: readonly { routes: RegExp; sentence: string; read: string; change: string }[] = [
  {
    routes: /\/api\/(?:dashboards|views)/,
    sentence: "Reading needs a session, changing the role `admin`.",
    read: "viewer",
    change: "admin",
  },
  { routes: /\/mcp$/, sentence: "It accepts sessions, read tokens", read: "", change: "reader" },
  { routes: /\/query\//, sentence: "Queries need a session or a read token.", read: "reader", change: "reader" },
  { routes: /POST \/alerting\/rules\/validate/, sentence: "`validate` needs a session with any role", read: "", change: "viewer" },
  {
    routes: /\/alerting\/(?:rules|slos|prometheus)/,
    sentence: "Reading needs a session or a read token, writing the role `admin`",
    read: "reader",
    change: "admin",
  },
  {
    routes: /\/alerting\/(?:silences|alertmanager)/,
    sentence: "a read token can read silences and Alertmanager's API",
    read: "reader",
    change: "admin",
  },
  { routes: /POST \/alerting\/routes\/test/, sentence: "alert with these `labels` takes; any role may ask", read: "", change: "viewer" },
  {
    routes: /\/alerting\/(?:routes|inhibit-rules|time-intervals|deliveries)/,
    sentence: "Reading notification routes, inhibition rules, time intervals and deliveries needs a session;",
    read: "viewer",
    change: "admin",
  },
  {
    routes: /\/alerting\/channels/,
    sentence: "Reading needs a session, writing the role `admin`; read tokens have no access.",
    read: "viewer",
    change: "admin",
  },
];

/** `METHOD /path` → role, of the tables whose second column is the role: `admin`, any session, or read `viewer`, change `admin`. */
const IN_TABLES: ReadonlyMap<string, string | undefined> = new Map(
  [...PAGE.matchAll(/^\| (.*?) \| (.*?) \|/gm)].flatMap(([, requests = "", required = ""]) => {
    const [read, change = read] =
      required === "any session" ? ["viewer"] : [...required.matchAll(/`(viewer|admin|operator)`/g)].map(([, role]) => role);
    const routes = [...requests.matchAll(/`(GET|POST|PUT|DELETE) (\/[^\s`?]+)/g)];
    return read === undefined ? [] : routes.map(([, method, path]) => [`${method} ${path}`, method === "GET" ? read : change] as const);
  }),
);

function documentedRole(route: string): string | undefined {
  const section = SECTIONS.find(({ routes }) => routes.test(route));
  return IN_TABLES.get(route) ?? (route.startsWith("GET ") ? section?.read : section?.change);
}

const ROUTES = (await declaredRoutes()).flatMap(({ method, path, access }) =>
  typeof access === "string" && access !== "anyone" ? [[`${method} ${path}`, access] as const] : [],
);

test("docs/contract.md contains the sentences and tables that this test reads", () => {
  for (const { sentence } of SECTIONS) expect(PAGE).toContain(sentence);
  expect(IN_TABLES.size).toBeGreaterThan(30);
});

test.each(ROUTES)("%s requires the documented role %s", (route, access) => {
  expect(documentedRole(route)).toBe(access);
});
