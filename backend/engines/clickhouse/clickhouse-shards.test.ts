// Which shard stores a body, and how statements for several shards are written.
import { describe, expect, test } from "vitest";
import { chooseShard, withGlobalSubqueries } from "./clickhouse-shards.ts";

const none = new Set<string>();
const senders = Array.from({ length: 3000 }, (_, index) => ({
  orgId: `org-${index % 7}`,
  hostId: `host-${index}`,
  bodyHash: String(index),
}));

describe("a shard", () => {
  test("stores every body of a sender, and about as many senders as the others", () => {
    for (const sender of senders.slice(0, 50))
      expect(chooseShard({ ...sender, bodyHash: "other" }, 3, none)).toBe(chooseShard(sender, 3, none));
    const counts = [0, 0, 0];
    for (const sender of senders) counts[chooseShard(sender, 3, none)]! += 1;
    for (const count of counts) expect(count).toBeGreaterThan(900);
  });

  test("that is added takes over its share of the senders, and no other sender moves", () => {
    const moved = senders.filter((sender) => chooseShard(sender, 4, none) !== chooseShard(sender, 3, none));
    expect(moved.length).toBeGreaterThan(600);
    expect(moved.length).toBeLessThan(900);
    expect(new Set(moved.map((sender) => chooseShard(sender, 4, none)))).toEqual(new Set([3]));
  });

  test("gets a share of a distributed organisation's bodies, and the same body always", () => {
    const spread = new Set(["org-1"]);
    const bodies = senders.map(({ bodyHash }) => ({ orgId: "org-1", hostId: "one", bodyHash }));
    expect(new Set(bodies.map((body) => chooseShard(body, 3, spread))).size).toBe(3);
    expect(new Set(bodies.map((body) => chooseShard(body, 3, none))).size).toBe(1);
    for (const body of bodies.slice(0, 20)) expect(chooseShard({ ...body }, 3, spread)).toBe(chooseShard(body, 3, spread));
  });
});

test("subqueries of IN are global, but not the content of a literal", () => {
  const statement = String.raw`SELECT 1 WHERE a IN (SELECT b) AND c NOT IN (SELECT d) AND m = ' IN (SELECT ' AND n = 'it\'s IN (SELECT x' AND k IN (1)`;
  expect(withGlobalSubqueries(statement)).toBe(
    String.raw`SELECT 1 WHERE a GLOBAL IN (SELECT b) AND c GLOBAL NOT IN (SELECT d) AND m = ' IN (SELECT ' AND n = 'it\'s IN (SELECT x' AND k IN (1)`,
  );
});
