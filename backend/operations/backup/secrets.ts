// Loads the secrets that an installation uses to sign and encrypt: from settings, or generated once. Invariant: a generated secret is on
// disk before anything depends on it, has mode 0600, and is never logged.
import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { syncFolder, makeFolder } from "../../../common/files.ts";
import { hasExternalEngine, SettingsError, type Secrets, type Settings } from "../../settings.ts";

/** Reads secrets from the settings. If all engines are embedded, missing ones are generated once in DATA_DIR/secrets. */
export function loadSecrets(settings: Settings, secrets: Secrets) {
  if (hasExternalEngine(settings, secrets) && (!secrets.masterKey || !secrets.jwtSecret))
    throw new SettingsError("MASTER_KEY and JWT_SECRET are required with an external engine");
  const folder = secretsFolder(settings);
  const masterKey =
    secrets.masterKey ??
    Buffer.from(
      generatedOnce(folder, "master-key", () => randomBytes(32).toString("base64")),
      "base64",
    );
  const jwtSecret =
    secrets.jwtSecret ??
    Buffer.from(
      generatedOnce(folder, "jwt-secret", () => randomBytes(48).toString("base64")),
      "utf8",
    );
  const { masterPreviousKey, jwtPreviousSecret } = secrets;
  return { masterKey, masterPreviousKey, jwtSecret, jwtPreviousSecret };
}

export function secretsFolder(settings: Settings): string {
  return join(settings.dataDir, "secrets");
}

/**
 * Returns the content of the file. If the file does not exist, it is written first, atomically and synced; two concurrent writers return
 * the same content.
 */
export function generatedOnce(folder: string, name: string, generate: () => string): string {
  const path = join(folder, name);
  const existing = readIfThere(path);
  if (existing !== undefined) return existing;
  makeFolder(folder, 0o700);
  const draft = join(folder, `.${name}.${process.pid}.${randomBytes(4).toString("hex")}`);
  try {
    writeFileSync(draft, `${generate()}\n`, { mode: 0o600, flag: "wx", flush: true });
    linkSync(draft, path);
    syncFolder(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return readFileSync(path, "utf8").trim();
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
