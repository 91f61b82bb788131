// Asks the collector itself whether it would run a configuration. Invariant: nothing is started and nothing is changed but the
// directories that the configuration names. Called by supervisor.ts and diagnose.ts.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { maskSecrets } from "./child-log.ts";
import { collectorEnvironment, FEATURE_GATES } from "./process.ts";
import { CollectorConfigError } from "./render.ts";

const VALIDATE_WITHIN_MS = 60_000;

/** Throws CollectorConfigError with the collector's own words, secrets masked. */
export async function validateCollectorConfig(
  program: string,
  configFile: string,
  options: { env: Readonly<Record<string, string>>; memoryMib: number },
): Promise<void> {
  const env = collectorEnvironment(options, 13_133, 8888);
  const args = ["validate", "--config", configFile, FEATURE_GATES];
  try {
    const asked = promisify(execFile)(program, args, { env, timeout: VALIDATE_WITHIN_MS });
    asked.child.stdin?.end();
    await asked;
  } catch (cause) {
    const { stderr = "", message } = cause as Error & { stderr?: string };
    throw new CollectorConfigError(`the collector refuses the configuration: ${maskSecrets(stderr.trim() || message).slice(-3000)}`, {
      cause,
    });
  }
}
