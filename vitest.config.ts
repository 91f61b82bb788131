// Test runner settings: tests of a file are next to it (`engine`: those that run an engine, `unit`: all others), tests of several
// processes in test/. First `unit` runs, then `engine` and `system`, then what needs the machine for itself. Invariant: files of one
// project run side by side, so none of them has a port, an address, a folder or a name that another could have.
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./hack/testing/longest-first.ts";

const SOURCES = "{agent,backend,common,hack}/**/*";
const ENGINE = `${SOURCES}.engine.test.ts`;
const SYSTEM = "test/{attacks,console,contract,faults,simulation,start}/**/*.test.ts";

/** What measures pace, or the memory of a backend whose senders fill both cores: one file at a time, after all others. */
const ALONE = [
  "test/faults/{backend-memory,hostile-bodies}.test.ts",
  // How long others wait while one tenant takes all it can.
  "test/attacks/{attacks,floods,shares}.test.ts",
];

// Test files and the programs that they start reuse the code that V8 compiled for earlier ones: a start of the backend takes half the CPU time.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules", ".cache", "compiled");

const workers = availableParallelism();
/** Tests with engines and processes need a core for less than half of their time: they wait for programs to start, and for intervals. */
const WAITING_WORKERS = 2 * workers + 1;
const common = {
  pool: "forks",
  expect: { poll: { timeout: 30_000 } },
  // `npm test` and CI print only the first line of a failure: it shows what an array contains instead of "[ Array(1) ]".
  chaiConfig: { truncateThreshold: 1500 },
} as const;
const settings = { testTimeout: 60_000, hookTimeout: 120_000, ...common } as const;
const limits = { testTimeout: 300_000, hookTimeout: 300_000, ...common } as const;

export default defineConfig({
  test: {
    // Builds kernels, types of the API and the console if their sources have changed.
    globalSetup: ["hack/kernel.mjs", "hack/api-types.mjs", "hack/console.mjs"],
    maxWorkers: workers,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "unit",
          include: [`${SOURCES}.test.ts`],
          exclude: [...configDefaults.exclude, ENGINE, ...ALONE],
          setupFiles: ["hack/unit-time.ts"],
          ...settings,
        },
      },
      { test: { name: "engine", include: [ENGINE], ...settings, maxWorkers: WAITING_WORKERS, sequence: { groupOrder: 1 } } },
      // The contract from end to end: the part of `npm test` that runs engines.
      { test: { name: "smoke", include: ["test/smoke/**/*.test.ts"], ...limits } },
      {
        test: {
          name: "system",
          include: [SYSTEM],
          exclude: ALONE,
          ...limits,
          maxWorkers: WAITING_WORKERS,
          sequence: { groupOrder: 1 },
        },
      },
      { test: { name: "alone", include: ALONE, ...limits, maxWorkers: 1, sequence: { groupOrder: 2 } } },
      // `npm run test:distributed`: kills each part of a distributed installation under load. Needs the programs of VM_CLUSTER_BIN.
      { test: { name: "distributed", include: ["test/distributed/**/*.test.ts"], ...limits, fileParallelism: false } },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          ...limits,
          testTimeout: 900_000,
          fileParallelism: false,
          bail: 1,
        },
      },
    ],
  },
});
