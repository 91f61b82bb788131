// The backend's sources without tenant conditions, in a folder of their own. `conditions`: those that the statements of routes have by
// hand. The layer below: what the backend has the engines of metrics, logs and spans, and the relational store, add to every statement.
import { cpSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { ROOT } from "../../fixtures/processes.ts";

/** Statements of routes that read; those of jobs serve all organisations. */
const FOLDERS = [
  "auth/audit",
  "auth/sessions",
  "query/loki",
  "query/native",
  "storage",
  "storage/logs",
  "storage/traces",
  "tenants/accounts",
  "tenants/enrolment",
  "tenants/usage",
];
const FILES = [
  "alerting/table.ts",
  ...[
    "api/active-alerts",
    "api/alertmanager-routes",
    "api/delivery-routes",
    "channels/channel-store",
    "model/organisation-rows",
    "routing/route-store",
    "routing/silence-store",
  ].map((name) => `notification/${name}.ts`),
];
/** Written from the ingest path, for which it reads what was written before. */
const NOT_READ_BY_ROUTES = new Set(["backend/storage/traces/span-operations.ts"]);

const FORMS: readonly (readonly [RegExp, string])[] = [
  [/\.where\("(?:\w+\.)?org_id", "=", \w+(?:\.\w+)?\)/g, ""],
  [/\borg_id = \$\{[^}]+\}/g, "1 = 1"],
];

interface Removal {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Answers 500 for a LogQL statement without a condition by hand, so every mutant lacks it: only the layer below may hold. */
const CHECKS_OF_CONDITIONS: readonly Removal[] = [
  {
    file: "backend/query/sandbox/protocol.ts",
    from: 'if (!statement.includes(MARKED_CONDITION)) throw new Error("a sandbox process sent a statement without its organisation");',
    to: "",
  },
];

const LAYER_BELOW: readonly Removal[] = [
  { file: "backend/engines/relational/tenant-database.ts", from: "return db.withPlugin(new TenantPlugin(orgId));", to: "return db;" },
  { file: "backend/engines/clickhouse/statement-settings.ts", from: "${tenantFilter(orgId)}, ", to: "" },
  { file: "backend/storage/metrics/store.ts", from: 'scoped.append("extra_label", `org_id=${orgId}`);', to: "" },
];

export interface Condition {
  readonly file: string;
  readonly line: number;
  readonly start: number;
  readonly text: string;
  readonly without: string;
}

export function findConditions(): Condition[] {
  const files = [
    ...FOLDERS.flatMap((folder) => sourcesIn(join(ROOT, "backend", folder))),
    ...FILES.map((file) => join(ROOT, "backend", file)),
  ];
  return files
    .map((path) => relative(ROOT, path))
    .filter((file) => !NOT_READ_BY_ROUTES.has(file))
    .flatMap((file) => conditionsIn(file, readFileSync(join(ROOT, file), "utf8")));
}

function sourcesIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".ts") && !/\.(?:test|fixture)\.ts$/.test(name))
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}

function conditionsIn(file: string, source: string): Condition[] {
  return FORMS.flatMap(([form, without]) =>
    [...source.matchAll(form)].map((found) => ({
      file,
      line: source.slice(0, found.index).split("\n").length,
      start: found.index,
      text: found[0],
      without,
    })),
  );
}

/** Copies what a backend needs to run. Answers its program. */
export function copySources(folder: string): string {
  const filter = (path: string): boolean => basename(path) !== "node_modules";
  for (const name of ["agent", "backend", "common", "package.json"])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true, filter });
  for (const name of [".", "agent", "backend"]) {
    const modules = join(ROOT, name, "node_modules");
    if (existsSync(modules)) symlinkSync(modules, join(folder, name, "node_modules"));
  }
  return join(folder, "backend", "main.ts");
}

/** Restores the sources of the repository, then removes these conditions. */
export function mutate(folder: string, removed: readonly Condition[], options: { readonly withoutLayerBelow: boolean }): void {
  const removals = options.withoutLayerBelow ? [...CHECKS_OF_CONDITIONS, ...LAYER_BELOW] : CHECKS_OF_CONDITIONS;
  for (const { file } of [...findConditions(), ...CHECKS_OF_CONDITIONS, ...LAYER_BELOW]) cpSync(join(ROOT, file), join(folder, file));
  for (const [file, conditions] of Map.groupBy(removed, (condition) => condition.file)) {
    let source = readFileSync(join(folder, file), "utf8");
    for (const { start, text, without } of conditions.toSorted((a, b) => b.start - a.start))
      source = source.slice(0, start) + without + source.slice(start + text.length);
    writeFileSync(join(folder, file), source);
  }
  for (const { file, from, to } of removals) {
    const parts = readFileSync(join(folder, file), "utf8").split(from);
    if (parts.length !== 2) throw new Error(`${file} contains ${parts.length - 1} times: ${from}`);
    writeFileSync(join(folder, file), parts.join(to));
  }
}
