// A reporter for vitest that writes the outcome of a run as JSON to the file REPORT_FILE. Vitest's own JSON report names neither the project of a
// file nor the errors of hooks, and has no errors from outside the tests.
import { writeFileSync } from "node:fs";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

export interface Report {
  readonly files: readonly ReportedFile[];
  /** Messages of errors that belong to no file. */
  readonly errors: readonly string[];
  /** Some files were not run, because the project stops at its first failure. */
  readonly isInterrupted: boolean;
}

export interface ReportedFile {
  readonly path: string;
  /** Messages of errors that belong to no test: the file did not load, a hook failed, its process ended. */
  readonly errors: readonly string[];
  readonly tests: readonly ReportedTest[];
}

export interface ReportedTest {
  readonly name: string;
  readonly state: "passed" | "failed" | "skipped";
  readonly error?: string;
}

export default class JsonReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[], reason: string): void {
    const outside = new Set(unhandled);
    const isInterrupted = reason === "interrupted";
    const files = modules.map((module) => reportedFile(module, outside, isInterrupted));
    const report: Report = { files, errors: [...outside].map(messageOf), isInterrupted };
    writeFileSync(process.env["REPORT_FILE"] ?? "report.json", JSON.stringify(report));
  }
}

/** Removes the errors that belong to the file from `outside`. */
function reportedFile(module: TestModule, outside: Set<SerializedError>, isInterrupted: boolean): ReportedFile {
  // If a process was killed, only the cause of the error names the file.
  const own = [...outside].filter((error) => {
    const names = [error["VITEST_TEST_PATH"], error.message, error.cause?.message];
    return names.some((name) => String(name).includes(module.moduleId));
  });
  for (const error of own) outside.delete(error);
  const hooks = [module, ...module.children.allSuites()].flatMap((suite) => suite.errors());
  const errors = [...hooks, ...own].map(messageOf);
  const hasEnded = !["pending", "queued"].includes(module.state());
  if (!hasEnded && !isInterrupted && errors.length === 0) errors.push("it did not end");
  const tests = [...module.children.allTests()].map((test): ReportedTest => {
    const { state, errors: failures } = test.result();
    return { name: test.fullName, state: state === "pending" ? "skipped" : state, error: failures?.map(messageOf).at(0) };
  });
  return { path: module.moduleId, errors, tests };
}

function messageOf({ message, stack }: SerializedError): string {
  return stack?.includes(message) ? stack : message;
}
