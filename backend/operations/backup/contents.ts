// Describes what a backup contains for an operator: one line per store, counted in the backup's own files without an engine. Invariant: a
// count that cannot be read is omitted; this code never decides whether a backup is valid.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { countRows } from "../../engines/clickhouse/freeze.ts";
import { countTables } from "../../engines/sqlite/online-copy.ts";
import { ACCOUNTS_FILE } from "../../engines/sqlite/open.ts";
import { countSamples } from "../../engines/victoria-metrics/snapshot.ts";
import type { Manifest } from "./manifest.ts";

const TABLES: readonly (readonly [table: string, singular: string])[] = [
  ["orgs", "organisation"],
  ["users", "user"],
  ["api_keys", "key"],
  ["clusters", "cluster"],
  ["hosts", "host"],
  ["rules", "rule"],
  ["read_tokens", "read token"],
];

/** One line per store in `dataDir`, which no process uses. */
export function describeContents(dataDir: string, { moments: times = {}, created_at: createdAt, series }: Manifest): string[] {
  const line = (store: string, parts: readonly string[]): string[] =>
    parts.length === 0 ? [] : [`${store} as of ${times[store] ?? createdAt}: ${parts.join(", ")}`];
  return [
    ...line("accounts", describeAccounts(join(dataDir, ACCOUNTS_FILE))),
    ...line("logs", describeRows(dataDir, "logs", "row")),
    ...line("spans", describeRows(dataDir, "spans", "row")),
    ...line("metrics", describeMetrics(dataDir, series)),
  ];
}

function describeAccounts(file: string): string[] {
  if (!existsSync(file)) return [];
  const counts = countTables(
    file,
    TABLES.map(([table]) => table),
  );
  return TABLES.flatMap(([table, singular]) => {
    const count = counts.get(table);
    return count === undefined ? [] : [countText(count, singular)];
  });
}

function describeRows(dataDir: string, table: string, singular: string): string[] {
  const folder = join(dataDir, "clickhouse");
  const count = countRows(folder, table);
  return count === undefined ? [] : [countText(count, singular), ...describeJournal(join(folder, "journal", table))];
}

function describeMetrics(dataDir: string, series: number | undefined): string[] {
  const samples = countSamples(join(dataDir, "metrics"));
  if (samples === undefined) return [];
  return [
    ...(series === undefined ? [] : [countText(series, "series", "series")]),
    countText(samples, "sample"),
    ...describeJournal(join(dataDir, "metrics-journal")),
  ];
}

/** The journal of a backend that ran or was killed: rows that the engine does not have yet. */
function describeJournal(folder: string): string[] {
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".journal")) : [];
  const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  return bytes === 0 ? [] : [`plus ${sizeText(bytes)} of journal, replayed at the first start`];
}

const UNITS = ["KiB", "MiB", "GiB", "TiB"];

/** `512 bytes`, `1.4 GiB`. */
export function sizeText(bytes: number): string {
  let [value, unit] = [bytes, "bytes"];
  for (const next of UNITS) {
    if (value < 1024) break;
    [value, unit] = [value / 1024, next];
  }
  return `${unit === "bytes" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

/** `1 rule`, `12,345 rules`. */
export function countText(count: number, singular: string, plural = `${singular}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? singular : plural}`;
}
