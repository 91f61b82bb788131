// Measures the repository: sizes of files, double casts, and the files and returns of walks through the code (structure/walk.ts).
// Targets: at most 15 source files below 30 lines, none above 400, median 120 to 150. `--tree FOLDER` measures another checkout; further
// arguments are entry points of a walk in it, instead of the usual walks.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createWalk } from "./structure/walk.ts";

const WALKS: Readonly<Record<string, readonly string[]>> = {
  "metric body, agent": ["agent/proxy/server.ts"],
  "metric body, backend": ["backend/ingest/ingest-routes.ts", "backend/ingest/exposition/exposition-ingest.ts"],
  "log body, backend": ["backend/ingest/ingest-routes.ts", "backend/ingest/otlp/otlp-ingest.ts", "backend/storage/logs/log-store.ts"],
  "log query": ["backend/query/native/log-routes.ts"],
  "LogQL query": ["backend/query/loki/loki-routes.ts", "backend/query/sandbox/sandbox.ts", "backend/query/loki/jobs.ts"],
  "alert to webhook": [
    "backend/notification/intake/intake.ts",
    "backend/notification/routing/dispatcher.ts",
    "backend/notification/delivery/outbox.ts",
  ],
  "cluster enrolment, agent": ["agent/identity/cluster-identity.ts"],
  "cluster enrolment, backend": ["backend/tenants/enrolment/register.ts"],
  "rotation, backend": ["backend/tenants/enrolment/rotate-key.ts"],
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
console.table(rows);
console.log(small.join("\n"));

const walks = positionals.length > 0 ? { [positionals.join(", ")]: positionals } : WALKS;
const walk = createWalk(tree, sources);
const walked = Object.entries(walks).map(([name, entryFiles]) => [name, walk(entryFiles)] as const);
console.table(
  Object.fromEntries(walked.map(([name, { files, functions, returns }]) => [name, { files: files.length, functions, returns }])),
);
// What a walk given on the command line opens, in its order.
if (positionals.length > 0) console.log(walked.flatMap(([, { files }]) => files).join("\n"));
console.log(
  JSON.stringify({
    ...rows,
    walks: Object.fromEntries(walked.map(([name, { files, ...counts }]) => [name, { files: files.length, ...counts }])),
  }),
);
