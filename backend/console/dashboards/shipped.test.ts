import { expect, test } from "vitest";
import { readShipped, SHIPPED } from "./shipped.ts";

test.each(SHIPPED)("$title has panels with queries for its variables", async ({ id }) => {
  const { variables = [], panels = [] } = (await readShipped(id)) ?? {};
  expect(panels.length).toBeGreaterThan(2);
  const queries = panels.flatMap((panel) => panel.queries.map(({ query }) => query)).join("\n");
  expect(variables.map(({ name }) => name).filter((name) => !new RegExp(`\\$\\{?${name}\\b`).test(queries))).toEqual([]);
});

test("there is no other dashboard", async () => {
  expect(await readShipped("other")).toBeUndefined();
});
