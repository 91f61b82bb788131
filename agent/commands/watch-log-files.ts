// Starts the parts that notice log files which are not read: of a host, or of the node's pods.
import { join } from "node:path";
import { filesPollIntervalMs, readsFilesAsRendered } from "../collector/config/config-from-settings.ts";
import { FILES_RECEIVER, OFFSETS_FILE } from "../collector/config/fragments/host-logs.ts";
import { POD_OFFSETS_FILE, PODS_RECEIVER } from "../collector/config/fragments/pod-logs.ts";
import type { LogFiles } from "../collector/files/log-files.ts";
import type { FoundFilesStatus, LogFilesStatus, WatchedFile } from "../collector/files/log-files-status.ts";
import { PodLogFiles } from "../collector/files/pod-log-files.ts";
import type { Supervisor } from "../collector/supervision/supervisor.ts";
import { UnreadFiles } from "../collector/supervision/unread-files.ts";
import { LogFilesWatchdog } from "../collector/supervision/watchdog.ts";
import type { Log } from "../log.ts";
import type { Settings } from "../settings.ts";
import type { Parts } from "./running-parts.ts";

interface Context {
  readonly supervisor: Supervisor;
  readonly parts: Parts;
  readonly log: Log;
}

interface Source {
  status(): FoundFilesStatus;
  watched(): AsyncIterable<WatchedFile>;
}

/** `logFiles`: the files of a host. Sets the parts `logFiles`, `logFilesWatchdog` and `unreadFiles`. */
export function watchLogFiles(
  settings: Settings,
  logFiles: LogFiles | undefined,
  { supervisor, parts, log }: Context,
  started: AsyncDisposableStack,
): void {
  const source = logFiles ?? podLogFiles(settings, parts);
  if (!source) return;
  const { stateFolder = settings.stateDir, logMaxAgeMs: maxAgeMs } = settings;
  const unread = new UnreadFiles({
    files: () => renderedFiles(settings, source),
    offsetsFile: join(stateFolder, logFiles ? OFFSETS_FILE : POD_OFFSETS_FILE),
    maxAgeMs,
    collectorPid: () => supervisor.status().pid,
    pauseMs: () => (logFiles ? filesPollIntervalMs(source.status().open) : 0),
    log,
  });
  const status = (): LogFilesStatus => {
    const { notRead, ...files } = source.status();
    const { lastCollectorPassMs } = unread;
    return { ...files, lastCollectorPassMs, notRead: { ...notRead, unread: unread.paths().length }, lost: unread.lost() };
  };
  parts.running.unreadFiles = started.use(unread);
  parts.running.logFiles = { status };
  const receiver = logFiles ? FILES_RECEIVER : PODS_RECEIVER;
  parts.running.logFilesWatchdog = started.use(
    new LogFilesWatchdog({ files: { status }, receiver, supervisor, log, ...(logFiles && { pauseMs: filesPollIntervalMs }) }),
  );
}

function podLogFiles(settings: Settings, parts: Parts): Source | undefined {
  const { cluster, signals } = settings;
  if (!cluster || cluster.hostAccess === "none") return undefined;
  const isFollowing = (): boolean => {
    const { adjustment, running } = parts;
    const isCollected = (adjustment.signals ?? signals).includes("logs") && readsFilesAsRendered(settings);
    return isCollected && running.effectiveConfig !== undefined && running.effectiveConfig.waitsFor === undefined;
  };
  return new PodLogFiles({ ownPodUid: cluster.podUid, excludeNamespaces: cluster.excludeNamespaces, isFollowing });
}

/** None if the operator's own configuration may exclude files, or store offsets elsewhere. */
async function* renderedFiles(settings: Settings, source: Source): AsyncGenerator<WatchedFile> {
  const isRendered = readsFilesAsRendered(settings);
  for await (const file of source.watched()) if (isRendered) yield file;
}
