// Opens the log files of a host for a collector that a test starts without an agent.
import { pino } from "pino";
import { logFilesFolder, logPathRules } from "../config/config-from-settings.ts";
import { logFileRules } from "./log-paths.ts";
import type { Settings } from "../../settings.ts";
import { LogFiles } from "./log-files.ts";

/** To be called before the collector starts. */
export async function startLogFiles(settings: Settings): Promise<LogFiles> {
  const { host, logMaxAgeMs: maxAgeMs } = settings;
  if (!host) throw new Error("not the settings of a host agent");
  const files = new LogFiles({
    folder: logFilesFolder(settings),
    offsetsFile: "/none",
    rules: () => logFileRules(logPathRules(settings, host), host.logPaths),
    maxAgeMs,
    log: pino({ level: "warn" }),
  });
  await files.start(host.logPaths);
  return files;
}
