// Log files of a machine, through the descriptors that the agent keeps open (agent/log-files). Invariant: a line is handed on only together
// with its offset in the file, and the offset is stored only after the line is in the disk queue; so no line is lost by a crash, and a crash
// may repeat what was read since the last checkpoint.
import { linkPatterns, restorePath } from "../../log-files/link-name.ts";
import { CHECKPOINT_STORAGE, type Component, type Fragment } from "./fragment.ts";
import { logFields } from "./log-fields.ts";

export const FILES_RECEIVER = "file_log/files";
/** Where it stores the offsets of its files, below the folder of state. */
export const OFFSETS_FILE = "checkpoints/receiver_filelog_files";

export interface FilesInput {
  /** Holds the links to the open files, and nothing else. */
  readonly folder: string;
  readonly maxAgeMs: number;
  readonly pollIntervalMs: number;
  /** A line that matches begins a record. */
  readonly multilineStart?: string | undefined;
  /** Level, time and trace are taken out of what lines say. */
  readonly readsFields: boolean;
}

export function files(input: FilesInput): Fragment {
  const fields = input.readsFields ? logFields({ hasRuntimeTime: false, maxAgeMs: input.maxAgeMs }) : [];
  return {
    receivers: {
      [FILES_RECEIVER]: {
        include: linkPatterns(input.folder),
        ...reading(input.maxAgeMs, input.pollIntervalMs),
        include_file_name: true,
        include_file_path: true,
        ...(input.multilineStart !== undefined && { multiline: { line_start_pattern: input.multilineStart } }),
        operators: [...restorePath(input.folder), SOURCE, ...fields],
      },
    },
    pipelines: [{ id: "logs/files", receivers: [FILES_RECEIVER], processors: [], waits: true }],
  };
}

const SOURCE = { type: "add", field: 'resource["service.name"]', value: 'EXPR(attributes["log.file.name"])' };

/** What reading without loss needs, the same for every file. */
export function reading(maxAgeMs: number, pollIntervalMs: number): Component {
  return {
    // A file that appears while the collector is down is read whole; `end` would skip it.
    start_at: "beginning",
    exclude_older_than: `${Math.round(maxAgeMs / 1000)}s`,
    poll_interval: `${pollIntervalMs}ms`,
    // What tells a line that is read again from another; it stays on the node.
    include_file_record_offset: true,
    storage: CHECKPOINT_STORAGE,
    // A refusal must not drop lines.
    retry_on_failure: { enabled: true, initial_interval: "100ms", max_interval: "5s", max_elapsed_time: "0s" },
  };
}
