// What a backup holds, told from its own files without an engine: for people who have just restored it. Invariant: what cannot be told is
// left out; nothing here decides whether a backup is good.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { countRows } from "../../engines/clickhouse/freeze.ts";
import { countTables } from "../../engines/sqlite/online-copy.ts";
import { ACCOUNTS_FILE } from "../../engines/sqlite/open.ts";
import { countSamples } from "../../engines/victoria-metrics/snapshot.ts";
import type { Manifest } from "./manifest.ts";
import { countText, sizeText } from "./size-text.ts";

const TABLES: readonly (readonly [table: string, one: string])[] = [
  ["orgs", "organisation"],
  ["users", "user"],
  ["api_keys", "key"],
  ["clusters", "cluster"],
  ["hosts", "host"],
  ["rules", "rule"],
  ["read_tokens", "read token"],
];

/** One line for each store that is in `dataDir`, which no process uses. */
export function broughtBack(dataDir: string, { moments = {}, created_at: createdAt, series }: Manifest): string[] {
  const line = (store: string, parts: readonly string[]): string[] =>
    parts.length === 0 ? [] : [`${store} as of ${moments[store] ?? createdAt}: ${parts.join(", ")}`];
  return [
    ...line("accounts", accounts(join(dataDir, ACCOUNTS_FILE))),
    ...line("logs", rows(dataDir, "logs", "row")),
    ...line("spans", rows(dataDir, "spans", "row")),
    ...line("metrics", metrics(dataDir, series)),
  ];
}

function accounts(file: string): string[] {
  if (!existsSync(file)) return [];
  const counts = countTables(
    file,
    TABLES.map(([table]) => table),
  );
  return TABLES.flatMap(([table, one]) => {
    const count = counts.get(table);
    return count === undefined ? [] : [countText(count, one)];
  });
}

function rows(dataDir: string, table: string, one: string): string[] {
  const folder = join(dataDir, "clickhouse");
  const count = countRows(folder, table);
  return count === undefined ? [] : [countText(count, one), ...journal(join(folder, "journal", table))];
}

function metrics(dataDir: string, series: number | undefined): string[] {
  const samples = countSamples(join(dataDir, "metrics"));
  if (samples === undefined) return [];
  return [
    ...(series === undefined ? [] : [countText(series, "series", "series")]),
    countText(samples, "sample"),
    ...journal(join(dataDir, "metrics-journal")),
  ];
}

/** Of a backend that was killed, or ran. */
function journal(folder: string): string[] {
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".journal")) : [];
  const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  return bytes === 0 ? [] : [`and ${sizeText(bytes)} of their journal, which the first start gives to the engine`];
}
