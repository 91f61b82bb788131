// Test runner settings: unit tests stand beside their file, tests of several processes in test/.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["agent/**/*.test.ts", "backend/**/*.test.ts", "hack/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          pool: "forks",
        },
      },
      {
        test: {
          name: "system",
          include: ["test/{contract,faults,start}/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          pool: "forks",
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 900_000,
          hookTimeout: 300_000,
          pool: "forks",
          fileParallelism: false,
          bail: 1,
        },
      },
    ],
    maxWorkers: 2,
  },
});
