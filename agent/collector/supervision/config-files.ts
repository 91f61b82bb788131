// Stores the collector's current configuration and the last one that ran on disk, and lets the collector validate new ones. Invariants: a file
// is replaced as a whole or stays unchanged, even during a power failure; content that is already on disk is not written again, so that an
// agent on a full disk can restart and roll back.
import { linkSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { makeFolder, renameDurably, writeDurably } from "../../../common/files.ts";
import { stateDirError } from "../../state/state-dir.ts";
import { maskSecrets } from "../../../common/mask.ts";
import { MAX_VALIDATION_OUTPUT } from "../../agent-limits.ts";
import type { Settings } from "../../settings.ts";
import { collectorEnvironment, collectorProgram, collectorVariables, FEATURE_GATES } from "./process.ts";
import { CollectorConfigError } from "../config/render.ts";

/** Its methods throw StateDirError if a file cannot be written. */
export class ConfigFiles {
  /** The current configuration. */
  readonly path: string;
  /** Records which process is the collector (orphan.ts). */
  readonly recordFile: string;
  readonly #stateDir: string;
  readonly #candidate: string;
  readonly #lastGood: string;

  constructor(stateDir: string) {
    const folder = join(stateDir, "collector");
    this.#stateDir = stateDir;
    this.path = join(folder, "config.yaml");
    this.recordFile = join(folder, "child.json");
    this.#candidate = join(folder, "candidate.yaml");
    this.#lastGood = join(folder, "last-good.yaml");
    this.onDisk(() => makeFolder(folder, 0o700));
  }

  /**
   * The configuration that last ran; undefined if there is none, or if its file is empty, which a power failure could cause in an earlier
   * version.
   */
  lastGood(): string | undefined {
    return read(this.#lastGood) || undefined;
  }

  /** Makes a configuration the current one if `validate` accepts the file that contains it. */
  async adopt(config: string, validate: (file: string) => Promise<void>): Promise<void> {
    if (read(this.path) === config) return await validate(this.path);
    this.#write(this.#candidate, config);
    await validate(this.#candidate);
    this.onDisk(() => renameDurably(this.#candidate, this.path));
  }

  /** Makes a configuration the current one without validation. For the last one that ran, a hard link is enough, which needs no space. */
  restore(config: string): void {
    if (read(this.#lastGood) !== config) return this.#write(this.path, config);
    this.onDisk(() => {
      const next = `${this.path}.new`;
      rmSync(next, { force: true });
      linkSync(this.#lastGood, next);
      renameDurably(next, this.path);
    });
  }

  saveLastGood(config: string): void {
    if (read(this.#lastGood) !== config) this.#write(this.#lastGood, config);
  }

  onDisk(write: () => void): void {
    try {
      write();
    } catch (error) {
      throw stateDirError(this.#stateDir, error as Error);
    }
  }

  #write(file: string, text: string): void {
    this.onDisk(() => writeDurably(file, text));
  }
}

/** Undefined if the file does not exist. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

// Lets the collector validate a configuration. Invariants: it starts no components and changes nothing except directories that the
// configuration names; if the collector was killed or took too long, the configuration counts as not validated.

const VALIDATE_WITHIN_MS = 60_000;

/** The collector could not validate the configuration: it was killed, took too long or could not be started. */
export class ValidationUnavailableError extends Error {
  override readonly name = "ValidationUnavailableError";
}

/** Throws ValidationUnavailableError, or CollectorConfigError with the collector's own message, secrets masked. */
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
    const message = `cannot validate the collector's configuration: \`validate\` ${why} (out of memory or overloaded?)`;
    throw new ValidationUnavailableError(message, { cause });
  }
  const reason = maskSecrets(stderr.trim() || shortMessage).slice(-3000);
  throw new CollectorConfigError(`the collector rejects the configuration: ${reason}`, { cause });
}

/**
 * Validates the YAML that `render` returns for a temporary folder, without changing the current configuration. `env` is added to the
 * collector's environment. Throws like validateCollectorConfig.
 */
export async function validateInFolder(settings: Settings, render: (folder: string) => string, env = {}): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "atherops-validate-"));
  try {
    const file = join(folder, "config.yaml");
    writeFileSync(file, render(folder), { mode: 0o600 });
    await validateCollectorConfig(collectorProgram(settings), file, {
      env: { ...collectorVariables(settings), ...env },
      memoryMib: settings.collectorMemoryMib,
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
