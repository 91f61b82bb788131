// Copies the backend's sources into a separate folder, with tenant conditions that a test can switch off while the backend runs.
// `conditions` are those that the statements of routes contain. The lower layer is what the backend makes the engines of metrics, logs and
// spans, and the relational store, add to every statement.
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
  "tenants/saved",
  "tenants/usage",
];
const FILES = [
  "alerting/alert-rule-table.ts",
  "alerting/slo-table.ts",
  ...[
    "api/active-alerts",
    "api/alertmanager-routes",
    "api/notification-routes",
    "channels/channel-store",
    "model/organisation-rows",
    "routing/named-settings",
    "routing/route-store",
    "routing/silences",
  ].map((name) => `notification/${name}.ts`),
];
/** Written from the ingest path, for which it reads what was written before. */
const NOT_READ_BY_ROUTES = new Set(["backend/storage/traces/span-operations.ts"]);

/** What a condition becomes. */
const FORMS: readonly (readonly [RegExp, (condition: string, isRemoved: string) => string])[] = [
  [/\.where\("(?:\w+\.)?org_id", "=", \w+(?:\.\w+)?\)/g, (where, isRemoved) => `.$if(!${isRemoved}, (query) => query${where})`],
  [/\borg_id = \$\{[^}]+\}/g, (equal, isRemoved) => `\${${isRemoved} ? sql\`1 = 1\` : sql\`${equal}\`}`],
];

/** The name by which a test switches the layer below off. */
export const LAYER_BELOW = "the layer below";
const IS_BELOW_REMOVED = `isRemoved(${JSON.stringify(LAYER_BELOW)})`;

export interface Change {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Answers 500 for a LogQL statement without a condition by hand, so every mutant lacks it: only the layer below may hold. */
const CHECKS_OF_CONDITIONS: readonly Change[] = [
  {
    file: "backend/query/sandbox/protocol.ts",
    from: 'if (!statement.includes(MARKED_CONDITION)) throw new Error("a sandbox process sent a statement without its organisation");',
    to: "",
  },
];

const CHANGES_BELOW: readonly Change[] = [
  {
    file: "backend/engines/relational/tenant-database.ts",
    from: "return db.withPlugin(new TenantPlugin(orgId));",
    to: `return ${IS_BELOW_REMOVED} ? db : db.withPlugin(new TenantPlugin(orgId));`,
  },
  {
    file: "backend/engines/clickhouse/statement-settings.ts",
    from: "${tenantFilter(orgId, shardDatabase, labelLimits)}, ",
    to: `\${${IS_BELOW_REMOVED} ? sql\`\` : sql\`\${tenantFilter(orgId, shardDatabase, labelLimits)}, \`}`,
  },
  {
    file: "backend/storage/metrics/metric-store.ts",
    from: 'scoped.append("extra_label", `org_id=${orgId}`);',
    to: `if (!${IS_BELOW_REMOVED}) scoped.append("extra_label", \`org_id=\${orgId}\`);`,
  },
];

export interface Condition {
  readonly file: string;
  /** File and line. */
  readonly name: string;
  readonly start: number;
  readonly text: string;
  readonly switchable: string;
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
  return FORMS.flatMap(([form, switchableOf]) =>
    [...source.matchAll(form)].map(({ index, 0: text }) => {
      const name = `${file}:${source.slice(0, index).split("\n").length}`;
      return { file, name, start: index, text, switchable: switchableOf(text, `isRemoved(${JSON.stringify(name)})`) };
    }),
  );
}

/** Copies the files that a backend needs to run. Returns its program. */
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

/** Makes the conditions, and the layer below, ask each time whether they are removed. */
export function makeSwitchable(
  folder: string,
  conditions: readonly Condition[],
  changes: readonly Change[] = [...CHECKS_OF_CONDITIONS, ...CHANGES_BELOW],
): void {
  const asked = join(folder, "backend", "is-removed.ts");
  writeFileSync(
    asked,
    `import { appendFileSync, readFileSync } from "node:fs";
export function isRemoved(name) {
  appendFileSync(${JSON.stringify(usedFile(folder))}, name + "\\n");
  return readFileSync(${JSON.stringify(removedFile(folder))}, "utf8").split("\\n").includes(name);
}\n`,
  );
  remove(folder, []);
  const changed = new Set([...conditions, ...changes].map(({ file }) => file));
  for (const [file, own] of Map.groupBy(conditions, (condition) => condition.file)) {
    let source = readFileSync(join(folder, file), "utf8");
    for (const { start, text, switchable } of own.toSorted((a, b) => b.start - a.start))
      source = source.slice(0, start) + switchable + source.slice(start + text.length);
    writeFileSync(join(folder, file), source);
  }
  for (const { file, from, to } of changes) {
    const parts = readFileSync(join(folder, file), "utf8").split(from);
    if (parts.length !== 2) throw new Error(`${file} contains ${parts.length - 1} times: ${from}`);
    writeFileSync(join(folder, file), parts.join(to));
  }
  for (const file of changed) {
    const source = readFileSync(join(folder, file), "utf8");
    writeFileSync(join(folder, file), `import { isRemoved } from ${JSON.stringify(asked)};\n${source}`);
  }
}

/** From now on these are removed, and no others. */
export function remove(folder: string, names: readonly string[]): void {
  writeFileSync(removedFile(folder), names.join("\n"));
}

/** The conditions that statements had since the last call. */
export function takeUsed(folder: string): Set<string> {
  const names = existsSync(usedFile(folder)) ? readFileSync(usedFile(folder), "utf8").split("\n") : [];
  writeFileSync(usedFile(folder), "");
  return new Set(names);
}

function usedFile(folder: string): string {
  return join(folder, "used-conditions");
}

function removedFile(folder: string): string {
  return join(folder, "removed-conditions");
}
