// Fails if a kind of body, listener, LogQL stage, range operation or template function has no attack.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FUNCTIONS } from "../../backend/query/loki/template-functions.ts";
import { RANGE_FUNCTIONS } from "../../backend/query/loki/points.ts";
import { SETTINGS_TABLE } from "../../backend/settings-table.ts";
import { ROOT } from "../fixtures/processes.ts";
import { OPERATIONS } from "./every-route.ts";
import { RANGE_OPERATIONS, STAGES, TEMPLATE_FUNCTIONS } from "./logql.ts";
import { TABLE } from "./attack-table.ts";

const covered = new Set(Object.values(TABLE).flatMap(({ covers }) => covers));

/** Media types that are read as text; attacks on the routes cover their readers. */
const TEXT_BODIES = new Set(["application/json", "application/x-www-form-urlencoded", "text/plain"]);
/** Listeners without an attack, and why. */
const OTHER_LISTENERS: Readonly<Record<string, string>> = {
  ALERTING_LISTEN: "the routes below /alerting of the API, by the same code and within the same limits",
  EVALUATOR_LISTEN: "the embedded vmalert, on loopback",
  RULES_LISTEN: "one document for an external vmalert, behind a password",
};

test("a route without its own attack has the general ones", () => {
  expect(TABLE["every-read"]?.covers).toContain("GET /api/dashboards");
  expect(TABLE["every-write"]?.covers).toContain("PUT /api/dashboards/{id}");
  expect([...OPERATIONS.keys()].filter((route) => !covered.has(route))).toEqual([]);
});

test("every kind of body except JSON, forms and text has an attack: `METHOD /path as content/type`", () => {
  const bodies = [...OPERATIONS].flatMap(([route, { requestBody }]) =>
    Object.keys(requestBody?.content ?? {}).flatMap((type) => (TEXT_BODIES.has(type) ? [] : [`${route} as ${type}`])),
  );
  expect(bodies.filter((body) => !covered.has(body))).toEqual([]);
});

test("every listener for clients has an attack: `listener: SETTING`", () => {
  const listeners = Object.values(SETTINGS_TABLE)
    .map(({ name }) => name)
    .filter((name) => name.endsWith("_LISTEN"));
  expect(listeners).toContain("API_LISTEN");
  expect(listeners.filter((name) => !(name in OTHER_LISTENERS) && !covered.has(`listener: ${name}`))).toEqual([]);
});

test("every encoding of bodies has an attack: `encoding: name`", () => {
  const reader = readFileSync(join(ROOT, "common", "content-coding", "decoder.ts"), "utf8");
  const encodings = [...(/type Coding =([^;]+);/.exec(reader)?.[1]?.matchAll(/"(\w+)"/g) ?? [])].map(([, name]) => name);
  expect(encodings.length).toBeGreaterThan(1);
  expect(encodings.filter((name) => !covered.has(`encoding: ${name}`))).toEqual([]);
});

test("every attack uses existing routes", () => {
  const onRoutes = [...covered].filter((entry) => !/^(?:protocol|listener|encoding): /.test(entry));
  expect(onRoutes.filter((entry) => !OPERATIONS.has(entry.replace(/ as \S+$/, "")))).toEqual([]);
});

test("each template function has a hostile use", () => {
  expect(Object.keys(FUNCTIONS).filter((name) => !(name in TEMPLATE_FUNCTIONS))).toEqual([]);
});

test("each stage of the query language has a hostile use", () => {
  const syntax = readFileSync(join(ROOT, "backend", "query", "loki", "syntax.ts"), "utf8");
  const stages = syntax.slice(syntax.indexOf("type Stage ="), syntax.indexOf(";\n\n", syntax.indexOf("type Stage =")));
  const kinds = [
    ...new Set(
      [syntax.includes('kind: "line_filter"') ? ["line_filter"] : [], [...stages.matchAll(/"(\w+)"/g)].map(([, kind]) => kind)].flat(),
    ),
  ];
  expect(kinds.length).toBeGreaterThan(8);
  expect(kinds.filter((kind) => kind === undefined || !(kind in STAGES))).toEqual([]);
});

test("each range operation is attacked", () => {
  const known: readonly string[] = RANGE_OPERATIONS;
  expect(Object.keys(RANGE_FUNCTIONS).filter((name) => !known.includes(name))).toEqual([]);
});
