// How large the repository is and how far its code reaches: sizes of files, double casts, and the files that one walk through the code loads.
// Targets: at most 15 source files below 30 lines, none above 400, median 120 to 150. `--tree FOLDER` measures another checkout; further
// arguments are entry points of a walk in it, instead of the usual walks.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { importsIn } from "../../hack/imports.ts";

const WALKS: Readonly<Record<string, readonly string[]>> = {
  "metric body, agent": ["agent/proxy/server.ts"],
  "metric body, backend": ["backend/ingest/exposition/exposition-ingest.ts", "backend/storage/metrics/store.ts"],
  "log body, backend": [
    "backend/ingest/routes.ts",
    "backend/ingest/otlp/otlp-decoder.ts",
    "backend/ingest/otlp/otlp-decoder-worker.ts",
    "backend/storage/logs/store.ts",
    "backend/storage/write-path/journaled-commit.ts",
  ],
  "log query": ["backend/query/native/log-routes.ts", "backend/storage/logs/store.ts"],
  "LogQL query": ["backend/query/loki/routes.ts", "backend/sandbox-worker.ts"],
  "alert to webhook": ["backend/notification/start.ts"],
  "cluster enrolment, agent": ["agent/identity/cluster-identity.ts"],
  "cluster enrolment, backend": ["backend/tenants/enrolment/register.ts"],
};

const { values, positionals } = parseArgs({ options: { tree: { type: "string", default: "." } }, allowPositionals: true });
const { tree } = values;

const files = execFileSync("git", ["ls-files", "*.ts", "*.tsx", "*.css"], { cwd: tree, encoding: "utf8" }).split("\n").filter(Boolean);
const isTest = (file: string): boolean => file.startsWith("test/") || /\.(?:test|fixture)\.tsx?$/.test(file);
const textOf = (file: string): string => readFileSync(join(tree, file), "utf8");
const linesOf = (file: string): number => textOf(file).split("\n").length - 1;
const sum = (list: readonly number[]): number => list.reduce((total, lines) => total + lines, 0);

const sources = files.filter((file) => !isTest(file));
const lengths = sources.map(linesOf).sort((a, b) => a - b);
const small = sources.filter((file) => linesOf(file) < 30);
const rows: Record<string, number | string> = {
  "source files": sources.length,
  "lines of source": sum(lengths),
  "lines of tests and benches": sum(files.filter(isTest).map(linesOf)),
  "median lines of a source file": lengths[lengths.length >> 1] ?? 0,
  "source files below 30 lines": small.length,
  "source files above 400 lines": lengths.filter((lines) => lines > 400).length,
  "double casts": sum(files.map((file) => textOf(file).split(/\bas unknown\s+as\b/).length - 1)),
};
const walks = positionals.length > 0 ? { [positionals.join(", ")]: positionals } : WALKS;
for (const [name, starts] of Object.entries(walks)) rows[`files loaded: ${name}`] = reached(starts);

console.table(rows);
console.log(small.join("\n"));
console.log(JSON.stringify(rows));

/** The number of files that `starts` load, themselves included; imports of types load nothing. */
function reached(starts: readonly string[]): number {
  const seen = new Set(starts);
  for (const file of seen) {
    if (!existsSync(join(tree, file))) throw new Error(`${file} does not exist: name the entry points of this checkout`);
    for (const { path, isType } of importsIn(textOf(file))) {
      const next = join(dirname(file), path);
      if (path.startsWith(".") && !isType && /\.tsx?$/.test(path) && existsSync(join(tree, next))) seen.add(next);
    }
  }
  return seen.size;
}
