// The results of the stages of a test run, as it prints them: a line after each stage, then what failed, what is flaky, and the sum.
import { durationText, ToolError } from "../tools/progress.ts";
import { NOTHING, type Outcome } from "./outcome.ts";

/** A run with `-t` skips all other tests of its files. */
const MAX_LISTED = 30;

export class Results {
  readonly #outcomes: Outcome[] = [];

  add(outcome: Outcome): void {
    this.#outcomes.push(outcome);
  }

  async time(stage: string, run: () => Promise<Outcome>): Promise<void> {
    console.log(`\nstage ${stage} …`);
    const startedAtMs = performance.now();
    const outcome = await run().catch(failureOf);
    this.add(outcome);
    const { passed, failures } = outcome;
    const counts = passed + failures.length > 0 ? `, ${passed} passed, ${failures.length} failed` : "";
    console.log(`stage ${stage}: ${failures.length > 0 ? "FAILED" : "OK"} ${durationText(performance.now() - startedAtMs)}${counts}`);
  }

  /** The last line is the sum. Sets the exit status. */
  print(): void {
    const all = <T>(of: (outcome: Outcome) => readonly T[]): T[] => this.#outcomes.flatMap(of);
    const sum = (of: (outcome: Outcome) => number): number => this.#outcomes.reduce((total, outcome) => total + of(outcome), 0);
    const [failures, flaky, skipped] = [all((one) => one.failures), all((one) => one.flaky), all((one) => one.skipped)];
    for (const test of skipped.slice(0, MAX_LISTED)) console.log(`skipped: ${test}`);
    if (skipped.length > MAX_LISTED) console.log(`skipped: and ${skipped.length - MAX_LISTED} more`);
    for (const test of flaky) console.log(`flaky: ${test}`);
    for (const failure of failures) console.log(`failed: ${failure}`);
    if (flaky.length > 0) console.log(`${flaky.length} flaky: failed once and passed alone (CONTRIBUTING.md, Tests)`);
    console.log(`${sum((one) => one.passed)} passed, ${failures.length} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`);
    if (failures.length > 0) process.exitCode = 1;
  }
}

/** The outcome if a program cannot be fetched. The tests that need it fail, too. */
function failureOf(error: unknown): Outcome {
  if (!(error instanceof ToolError)) throw error;
  return { ...NOTHING, failures: [error.message.replaceAll(/\s*\n\s*/g, " ⏎ ")] };
}
