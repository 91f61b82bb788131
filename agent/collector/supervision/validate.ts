// Asks the collector itself whether it would run a configuration. Invariants: nothing is started and nothing is changed but the
// directories that the configuration names; a collector that was killed or took too long has not validated it.
import { execa } from "execa";
import { maskSecrets } from "../../../common/mask.ts";
import { MAX_VALIDATION_OUTPUT } from "../../limits.ts";
import { collectorEnvironment, FEATURE_GATES } from "./process.ts";
import { CollectorConfigError } from "../config/render.ts";

const VALIDATE_WITHIN_MS = 60_000;

/** The collector could not validate the configuration: it was killed, took too long or could not be started. */
export class ValidationUnavailableError extends Error {
  override readonly name = "ValidationUnavailableError";
}

/** Throws ValidationUnavailableError, or CollectorConfigError with the collector's own words, secrets masked. */
export async function validateCollectorConfig(
  program: string,
  configFile: string,
  options: { env: Readonly<Record<string, string>>; memoryMib: number },
  withinMs = VALIDATE_WITHIN_MS,
): Promise<void> {
  const env = collectorEnvironment(options, 13_133, 8888);
  const args = ["validate", "--config", configFile, FEATURE_GATES];
  const run = await execa(program, args, {
    env,
    extendEnv: false,
    stdin: "ignore",
    timeout: withinMs,
    killSignal: "SIGKILL",
    cleanup: false,
    maxBuffer: MAX_VALIDATION_OUTPUT,
    reject: false,
  });
  if (!run.failed) return;
  const { exitCode, signal, timedOut, stderr, shortMessage = "", originalMessage = "", cause } = run;
  if (exitCode === undefined) {
    const why = timedOut ? `took longer than ${withinMs / 1000} s` : signal ? `was ended by ${signal}` : originalMessage;
    throw new ValidationUnavailableError(`cannot check the collector's configuration: \`validate\` ${why} (memory, a busy machine?)`, {
      cause,
    });
  }
  throw new CollectorConfigError(`the collector refuses the configuration: ${maskSecrets(stderr.trim() || shortMessage).slice(-3000)}`, {
    cause,
  });
}
