// What is known about the log files of a host or of pods: the files that the collector should read, and the counts that the agent reports.

/** A file that the collector should read. */
export interface WatchedFile {
  /** Path that people know. */
  readonly path: string;
  /** Path by which the collector stores its offset. */
  readonly storedPath: string;
  readonly id: string;
  readonly size: number;
  readonly changedMs: number;
}

export interface LostFiles {
  readonly files: number;
  readonly bytes: number;
}

/** What the files themselves show, without the collector's progress. */
export type FoundFilesStatus = Omit<LogFilesStatus, "lastCollectorPassMs" | "lost">;

export interface LogFilesStatus {
  readonly open: number;
  /** Matching files that are not read, by reason. */
  readonly notRead: Readonly<Record<string, number>>;
  /** Files that disappeared before the collector read them, since the agent started. */
  readonly lost: LostFiles;
  /** False while no logs are collected. */
  readonly isFollowing: boolean;
  /** Agent's clock, Unix milliseconds. */
  readonly lastPassMs: number;
  /** When the collector's last pass was observed; 0 before the first. */
  readonly lastCollectorPassMs: number;
}
