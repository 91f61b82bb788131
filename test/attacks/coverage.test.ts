// A new route, stage, range operation or template function cannot be added without an attack on it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FUNCTIONS } from "../../backend/query/loki/template-functions.ts";
import { RANGE_FUNCTIONS } from "../../backend/query/loki/points.ts";
import { ROOT } from "../fixtures/processes.ts";
import { RANGE_OPERATIONS, STAGES, TEMPLATE_FUNCTIONS } from "./logql.ts";
import { TABLE } from "./table.ts";

const covered = new Set(Object.values(TABLE).flatMap(({ covers }) => covers));

function listRoutes(document: string): string[] {
  const { paths } = JSON.parse(readFileSync(join(ROOT, "docs", document), "utf8")) as { paths: Record<string, object> };
  return Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
}

test("each route has an attack on it", () => {
  expect(listRoutes("openapi.json").filter((route) => !covered.has(route))).toEqual([]);
});

test("each attack is on routes that exist", () => {
  const routes = new Set(listRoutes("openapi.json"));
  expect([...covered].filter((entry) => !entry.startsWith("protocol: ") && !routes.has(entry))).toEqual([]);
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
