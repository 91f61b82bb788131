// Estimates cores of each component at a load from measured points. Model: a component uses a fixed part, and a part for each unit of load:
// samples in VictoriaMetrics, rows in ClickHouse, bodies elsewhere. Both come from the lowest and the highest load, so the points between
// them validate it.

export interface Load {
  readonly bodiesPerSecond: number;
  readonly rowsPerSecond: number;
  readonly samplesPerSecond: number;
}

export interface Point extends Load {
  /** By component. */
  readonly cores: Readonly<Record<string, number>>;
}

/** What 10,000 nodes send, by docs/sizing.md: log records and spans together. */
export const NODES_10_000: Load = { bodiesPerSecond: 30_615, rowsPerSecond: 350_000, samplesPerSecond: 666_667 };

function unitsOf(component: string, load: Load): number {
  if (component.startsWith("vm")) return load.samplesPerSecond;
  return component === "shard-server" ? load.rowsPerSecond : load.bodiesPerSecond;
}

/** In ClickHouse a row costs the same with any number of shards, and each shard has the fixed part. */
export function simulate(points: readonly Point[], load: Load, shards = 1): Record<string, number> {
  const [lowest, highest] = [points[0], points.at(-1)];
  if (!lowest || !highest || lowest === highest) throw new Error("a simulation needs two loads");
  return Object.fromEntries(
    Object.keys(highest.cores).map((name) => {
      const [from, to] = [lowest.cores[name] ?? 0, highest.cores[name] ?? 0];
      const [fromUnits, toUnits] = [unitsOf(name, lowest), unitsOf(name, highest)];
      const each = Math.max(0, (to - from) / (toUnits - fromUnits));
      const fixed = Math.max(0, from - each * fromUnits);
      return [name, (name === "shard-server" ? shards : 1) * fixed + each * unitsOf(name, load)];
    }),
  );
}
