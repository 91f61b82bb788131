// Finds the test files that the arguments of a command line select. Invariant: vitest would run the same files for the same arguments.
import { globSync } from "node:fs";
import { relative, resolve } from "node:path";

/** Projects of vitest.config.ts that need no cluster, in the order in which they run. */
export const PROJECTS = ["unit", "engine", "smoke", "system", "alone"];

/** A test that loads one of these runs third-party programs or a database. Only *.engine.test.ts and test/ may do so. */
export const ENGINES = [
  "hack/fetch-tools.ts",
  "test/fixtures/postgres.ts",
  "backend/engines/relational/database.ts",
  "backend/engines/sqlite/open.ts",
  "backend/engines/clickhouse/embedded-clickhouse.ts",
  "backend/engines/clickhouse/http-front.fixture.ts",
];

/** Tests that load no engine but take more than two seconds of CPU time: compilers, bundles, and comparisons of many documents. */
export const SLOW = [
  "agent/commands/diagnose/outgoing-proxy",
  "agent/collector/supervision/queue-space",
  "agent/proxy/part-sender",
  "backend/ingest/loki/push-to-json",
  "backend/ingest/otlp/bad-records",
  "backend/ingest/otlp/fast-decode",
  "backend/ingest/otlp/file-lines-random",
  "backend/ingest/otlp/file-lines-utf8",
  "backend/ingest/otlp/metrics/node-metrics",
  "backend/ingest/otlp/otlp-decoder",
  "backend/ingest/otlp/otlp-decoder-memory",
  "backend/ingest/otlp/otlp-documents",
  "backend/ingest/otlp/protobuf/fast-protobuf",
  "backend/ingest/otlp/protobuf/to-json",
  "backend/ingest/otlp/same-rows",
  "backend/ingest/refused-cost",
  "backend/ingest/remote-write/check-write",
  "backend/ingest/remote-write/fast-check",
  "backend/ingest/ingest-routes",
  "backend/ingest/trailing-bytes",
  "backend/query/loki/record-work",
  "backend/query/sandbox/sandbox",
  "common/http",
  "hack/bootstrap",
  "hack/bundle",
  "hack/console",
  "hack/from-one-to-many",
  "hack/kernel",
  "hack/testing/interruption",
  "hack/testing/outcome",
].map((name) => `${name}.engine.test.ts`);

/** Test files of several processes that take one to three minutes although they are small, the longest first. */
export const LONG = ["contract/offboarding", "simulation/simulation", "contract/isolation", "console/tasks", "contract/schemathesis"].map(
  (name) => `test/${name}.test.ts`,
);

/** Options of vitest whose value is the next argument. */
const WITH_VALUE = new Set(["-t", "--testNamePattern", "--project", "--reporter", "--testTimeout", "--maxWorkers"]);

/** The arguments that name files: neither options nor their values. */
export function pathsAmong(words: readonly string[]): string[] {
  return words.filter((word, at) => !word.startsWith("-") && !WITH_VALUE.has(words[at - 1] ?? ""));
}

/** The test files that `words` name, relative to `root`: files, folders, or parts of a path (as in vitest). */
export function testFiles(root: string, words: readonly string[]): string[] {
  const named = pathsAmong(words);
  if (named.length === 0) return [];
  const all = globSync("{agent,backend,common,hack,test}/**/*.test.ts", { cwd: root });
  return all.filter((file) => named.some((word) => file.includes(relative(root, resolve(root, word)))));
}
