// Estimates the cores of each component from its cores at rest and two measured loads, which differ in the size of bodies. Model: a
// component uses what it uses at rest, a part for each round of bodies, and a part for the records of each node. Other loads validate it.

/** A node sends one round a second (node-load.ts). */
export interface Shape {
  readonly roundsPerSecond: number;
  /** A round has the records that this number of nodes sends per second. */
  readonly nodesOfARound: number;
}

/** Cores by component. */
export type Cores = Readonly<Record<string, number>>;

export interface Point extends Shape {
  readonly cores: Cores;
}

/** What 10,000 nodes send. */
export const NODES_10_000: Shape = { roundsPerSecond: 10_000, nodesOfARound: 1 };

/** In ClickHouse a row costs the same with any number of shards, and each shard uses what it uses at rest. */
export function simulate(rest: Cores, points: readonly [Point, Point], load: Shape, shards = 1): Record<string, number> {
  return Object.fromEntries(
    Object.keys(points[0].cores).map((name) => {
      const atRest = rest[name] ?? 0;
      const { perRound, perNode } = costs(points.map((point) => ({ ...point, cores: Math.max(0, (point.cores[name] ?? 0) - atRest) })));
      const { roundsPerSecond: rounds, nodesOfARound } = load;
      return [name, (name === "shard-server" ? shards : 1) * atRest + rounds * perRound + rounds * nodesOfARound * perNode];
    }),
  );
}

/** Costs in CPU seconds that explain both loads. If one would be negative, it is 0, and the other is the best fit to both loads. */
export function costs(points: readonly (Shape & { readonly cores: number })[]): { readonly perRound: number; readonly perNode: number } {
  const [first, second] = points.map(({ roundsPerSecond: rounds, nodesOfARound, cores }) => ({
    rounds,
    nodes: rounds * nodesOfARound,
    cores,
  }));
  if (!first || !second) throw new Error("a simulation needs two loads");
  const determinant = first.rounds * second.nodes - second.rounds * first.nodes;
  const perRound = (first.cores * second.nodes - second.cores * first.nodes) / determinant;
  const perNode = (first.rounds * second.cores - second.rounds * first.cores) / determinant;
  const alone = (unit: "rounds" | "nodes") =>
    (first[unit] * first.cores + second[unit] * second.cores) / (first[unit] ** 2 + second[unit] ** 2);
  if (perRound < 0) return { perRound: 0, perNode: alone("nodes") };
  return perNode < 0 ? { perRound: alone("rounds"), perNode: 0 } : { perRound, perNode };
}
