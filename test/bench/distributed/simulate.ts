// Estimates the cores of each component from its cores at rest and three measured loads. Model: a component uses what it uses at rest, and
// a part for each request, for each insert into ClickHouse, and for the records of each node. A replica runs one insert at a time for each
// table and shard, and the bodies that arrive during an insert become the next one, so inserts reach a limit. Other loads validate it.

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
  readonly insertsPerSecond: number;
}

export interface Installation {
  readonly replicas: number;
  readonly shards: number;
}

/** The installation that the benchmark starts. */
export const MEASURED: Installation = { replicas: 2, shards: 1 };
/** The load of 10,000 nodes. */
export const NODES_10_000: Shape = { roundsPerSecond: 10_000, nodesOfARound: 1 };

/** A round is one body of log records, SPAN_BODIES of spans, and in every ROUNDS_OF_A_SCRAPE-th round one of samples (node-load.ts). */
export const SPAN_BODIES = 2;
export const ROUNDS_OF_A_SCRAPE = 10;
/** Bodies for each ClickHouse table. */
const BODIES_OF_TABLES = [1, SPAN_BODIES];
const REQUESTS_OF_A_ROUND = 1 + SPAN_BODIES + 1 / ROUNDS_OF_A_SCRAPE;
const ITERATIONS = 20_000;
const LONGEST_INSERT_MS = 1000;

/** CPU seconds of a component: of a request, of an insert into ClickHouse, and of what a node sends in a second. */
export interface Costs {
  readonly perRequest: number;
  readonly perInsert: number;
  readonly perNode: number;
}

/** Seconds from one insert of a queue to the next that explain best how many inserts were measured. */
export function insertSeconds(points: readonly Point[]): number {
  const error = (seconds: number): number =>
    points.reduce((sum, point) => sum + (inserts(point, MEASURED, seconds) / point.insertsPerSecond - 1) ** 2, 0);
  const candidates = Array.from({ length: LONGEST_INSERT_MS }, (_, ms) => (ms + 1) / 1000);
  return candidates.reduce((best, seconds) => (error(seconds) < error(best) ? seconds : best));
}

/** Inserts a second into all shards, if each queue starts an insert every `seconds` at most. */
export function inserts({ roundsPerSecond }: Shape, { replicas, shards }: Installation, seconds: number): number {
  const queues = replicas * shards;
  return BODIES_OF_TABLES.reduce((sum, bodies) => sum + Math.min(bodies * roundsPerSecond, queues / seconds), 0);
}

/** Least squares of relative errors; no cost is negative. */
export function fitCosts(points: readonly Point[], component: string, atRest: number): Costs {
  const rows = points.map((point) => {
    const cores = point.cores[component] ?? 0;
    return { parts: partsOf(point, point.insertsPerSecond).map((part) => part / cores), rest: atRest / cores };
  });
  const costs = [0, 0, 0];
  for (let iteration = 0; iteration < ITERATIONS; iteration += 1) {
    const at = iteration % costs.length;
    let [explained, square] = [0, 0];
    for (const { parts, rest } of rows) {
      const part = parts[at] ?? 0;
      const others = parts.reduce((sum, other, index) => sum + (index === at ? 0 : other * (costs[index] ?? 0)), 0);
      explained += part * (1 - rest - others);
      square += part * part;
    }
    costs[at] = Math.max(0, explained / square);
  }
  const [perRequest = 0, perInsert = 0, perNode = 0] = costs;
  return { perRequest, perInsert, perNode };
}

/** Cores of a component under a load. */
export function simulate(atRest: number, { perRequest, perInsert, perNode }: Costs, load: Shape, insertsPerSecond: number): number {
  const [requests = 0, inserted = 0, nodes = 0] = partsOf(load, insertsPerSecond);
  return atRest + requests * perRequest + inserted * perInsert + nodes * perNode;
}

function partsOf({ roundsPerSecond, nodesOfARound }: Shape, insertsPerSecond: number): number[] {
  return [roundsPerSecond * REQUESTS_OF_A_ROUND, insertsPerSecond, roundsPerSecond * nodesOfARound];
}
