// Asks the collector itself whether it would run a configuration. Invariant: nothing is started and nothing is changed but the
// directories that the configuration names. Called by supervisor.ts and diagnose.ts.
import { execa } from "execa";
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
  const { failed, stderr, originalMessage } = await execa(program, ["validate", "--config", configFile, FEATURE_GATES], {
    env: collectorEnvironment(options, 13_133, 8888),
    extendEnv: false,
    stdin: "ignore",
    reject: false,
    timeout: VALIDATE_WITHIN_MS,
  });
  if (!failed) return;
  const words = maskSecrets(stderr.trim() || (originalMessage ?? "no answer")).slice(-3000);
  throw new CollectorConfigError(`the collector refuses the configuration: ${words}`);
}
