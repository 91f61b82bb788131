import { expect, test } from "vitest";
import { type Edge, layOut, MAX_NODES, neighbourhood } from "./map-layout.ts";

const edge = (client: string, server: string, connection: Edge["connection"] = ""): Edge => ({
  client,
  server,
  connection,
  calls: 10,
  failed: 0,
  rate: 1,
  error_ratio: 0,
  p50_ms: 1,
  p95_ms: 2,
  p99_ms: 3,
});
const columnsOf = (edges: readonly Edge[]): Record<string, number> => {
  const { nodes } = layOut(edges);
  const lefts = [...new Set(nodes.map(({ x }) => x))].toSorted((a, b) => a - b);
  return Object.fromEntries(nodes.map(({ name, x }) => [name, lefts.indexOf(x)]));
};

test("places a caller left of everything that it calls, and a database in the last column", () => {
  const edges = [edge("web", "cart"), edge("web", "stock"), edge("cart", "stock"), edge("stock", "postgresql:shop", "database")];
  expect(columnsOf(edges)).toEqual({ web: 0, cart: 1, stock: 2, "postgresql:shop": 3 });
});

test("draws services that call each other or themselves in a cycle, with every call", () => {
  const { nodes, edges } = layOut([edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("a", "a")]);
  expect(nodes.map(({ name }) => name).toSorted()).toEqual(["a", "b", "c"]);
  expect(edges).toHaveLength(4);
});

test("overlaps no nodes, and places all inside the picture", () => {
  const services = Array.from({ length: 60 }, (_, at) => edge(`s${at % 7}`, `t${at}`));
  const { nodes, widthPx, heightPx } = layOut(services);
  expect(new Set(nodes.map(({ x, y }) => `${x} ${y}`)).size).toBe(nodes.length);
  expect(nodes.every(({ x, y }) => x > 0 && y > 0 && x < widthPx && y < heightPx)).toBe(true);
});

test("keeps a database apart from the service of the same name, and out of its neighbourhood", () => {
  const edges = [edge("web", "orders"), edge("cron", "orders", "database"), edge("orders", "mail")];
  expect(layOut(edges).nodes.filter(({ name }) => name === "orders")).toHaveLength(2);
  expect(neighbourhood({ nodes: [], edges }, "orders").map(({ client, server }) => `${client} ${server}`)).toEqual([
    "web orders",
    "orders mail",
  ]);
});

test("draws those of many nodes with most calls, and counts the others", () => {
  const { nodes, omitted } = layOut(Array.from({ length: 1999 }, (_, at) => edge(`s${at}`, `s${at + 1}`)));
  expect([nodes.length, omitted]).toEqual([MAX_NODES, 2000 - MAX_NODES]);
});

test("without calls is an empty picture", () => {
  expect(layOut([])).toMatchObject({ nodes: [], edges: [], omitted: 0 });
});
