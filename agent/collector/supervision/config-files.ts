// The collector's configuration on the disk, the one in force and the one that last ran, and its validation by the collector. Invariants: a file is replaced whole or left as it
// is, also by a power cut; what is on the disk already is not written again, so that an agent on a full disk can be restarted and can go
// back.
import { linkSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { makeFolder, renameDurably, writeDurably } from "../../../common/files.ts";
import { stateDirError } from "../../state/lock.ts";
import { maskSecrets } from "../../../common/mask.ts";
import { MAX_VALIDATION_OUTPUT } from "../../limits.ts";
import { collectorEnvironment, FEATURE_GATES } from "./process.ts";
import { CollectorConfigError } from "../config/render.ts";

/** What cannot be written throws StateDirError. */
export class ConfigFiles {
  /** In force. */
  readonly path: string;
  /** Which process is the collector (orphan.ts). */
  readonly noteFile: string;
  readonly #stateDir: string;
  readonly #candidate: string;
  readonly #lastGood: string;

  constructor(stateDir: string) {
    const folder = join(stateDir, "collector");
    this.#stateDir = stateDir;
    this.path = join(folder, "config.yaml");
    this.noteFile = join(folder, "child.json");
    this.#candidate = join(folder, "candidate.yaml");
    this.#lastGood = join(folder, "last-good.yaml");
    this.onDisk(() => makeFolder(folder, 0o700));
  }

  /** The one that last ran; undefined when there is none, or an empty one, as a power failure left it of an earlier version. */
  lastGood(): string | undefined {
    return read(this.#lastGood) || undefined;
  }

  /** Puts it in force if `validate` of the file that holds it resolves. */
  async adopt(config: string, validate: (file: string) => Promise<void>): Promise<void> {
    const isThere = read(this.path) === config;
    if (!isThere) this.#write(this.#candidate, config);
    await validate(isThere ? this.path : this.#candidate);
    if (!isThere) this.onDisk(() => renameDurably(this.#candidate, this.path));
  }

  /** Puts it in force without validation. What last ran is on the disk already: a second name for it needs no room, and all writes replace. */
  putBack(config: string): void {
    if (read(this.#lastGood) !== config) return this.#write(this.path, config);
    this.onDisk(() => {
      const next = `${this.path}.new`;
      rmSync(next, { force: true });
      linkSync(this.#lastGood, next);
      renameDurably(next, this.path);
    });
  }

  noteGood(config: string): void {
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

/** Undefined when there is none. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

// Asks the collector itself whether it would run a configuration. Invariants: nothing is started and nothing is changed but the
// directories that the configuration names; a collector that was killed or took too long has not validated it.

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
