// `render`: prints the collector's configuration as it would run, with the overlay merged; exits with 0 if the collector accepts it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configFromSettings } from "../collector/config/config-from-settings.ts";
import { collectorProgram, collectorVariables } from "../collector/supervision/process.ts";
import { validateCollectorConfig } from "../collector/supervision/config-files.ts";
import { type Identity, readSettings } from "../settings.ts";

/** Throws CollectorConfigError if the collector refuses the printed configuration. */
export async function renderCommand(identity: Identity, { quiet = false } = {}): Promise<void> {
  const { settings } = readSettings(identity);
  const yaml = configFromSettings(settings);
  if (!quiet) process.stdout.write(yaml);
  const folder = mkdtempSync(join(tmpdir(), "atherops-render-"));
  try {
    const file = join(folder, "config.yaml");
    writeFileSync(file, yaml, { mode: 0o600 });
    await validateCollectorConfig(collectorProgram(settings), file, {
      env: collectorVariables(settings),
      memoryMib: settings.collectorMemoryMib,
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
