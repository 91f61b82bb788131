// Log files of a machine. Invariant: a line is handed on only together with its place in the file, and the place is remembered only after
// the line lies in the disk queue; so no line is lost by a crash, and a crash may repeat what was read since the last checkpoint.
import { CHECKPOINT_STORAGE, type Component, type Fragment } from "./fragment.ts";
import { logFields } from "./log-fields.ts";

export interface FilesInput {
  /** Globs, absolute. */
  readonly paths: readonly string[];
  readonly exclude: readonly string[];
  readonly maxAgeMs: number;
  /** A line that matches begins a record. */
  readonly multilineStart?: string | undefined;
  /** Level, time and trace are taken out of what lines say. */
  readonly readsFields: boolean;
}

export function files(input: FilesInput): Fragment {
  return {
    receivers: {
      "file_log/files": {
        include: input.paths.flatMap(withRotated),
        exclude: input.exclude,
        ...reading(input.maxAgeMs),
        include_file_name: true,
        include_file_path: true,
        ...(input.multilineStart !== undefined && { multiline: { line_start_pattern: input.multilineStart } }),
        operators: [SOURCE, ...(input.readsFields ? logFields({ hasRuntimeTime: false, maxAgeMs: input.maxAgeMs }) : [])],
      },
    },
    pipelines: [{ id: "logs/files", receivers: ["file_log/files"], processors: [], waits: true }],
  };
}

const SOURCE = { type: "add", field: 'resource["service.name"]', value: 'EXPR(attributes["log.file.name"])' };

/** What reading without loss needs, the same for every file. */
export function reading(maxAgeMs: number): Component {
  return {
    // A file that appears while the collector is down is read whole; `end` would skip it.
    start_at: "beginning",
    exclude_older_than: `${Math.round(maxAgeMs / 1000)}s`,
    poll_interval: "200ms",
    // What tells a line that is read again from another; it stays on the node.
    include_file_record_offset: true,
    storage: CHECKPOINT_STORAGE,
    // A refusal must not drop lines.
    retry_on_failure: { enabled: true, initial_interval: "100ms", max_interval: "5s", max_elapsed_time: "0s" },
  };
}

/** A file rotated while the collector was down still has its last lines unread; it is known by its content, not by its name. */
function withRotated(path: string): string[] {
  return path.endsWith(".log") ? [path, `${path}.1`] : [path];
}
