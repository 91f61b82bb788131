// Collects logs of a host: files, through descriptors that the agent keeps open (agent/collector/files), and systemd's journal. Invariants: a
// line's file offset is stored only after the line is in the disk queue, so a crash loses no line but may repeat some; the agent's own journal
// entries are excluded. A collector that is killed may lose one journal entry.
import { FINGERPRINT_BYTES } from "../../../agent-limits.ts";
import { linkPatterns, pathStatements } from "../../files/link-name.ts";
import { fileAttributesFrom, LINES, nameScope, type NodeParsing, withoutFields } from "./file-lines.ts";
import { CHECKPOINT_STORAGE, type Component, type Fragment } from "./fragment.ts";
import { logFields } from "./log-fields.ts";

export const FILES_RECEIVER = "file_log/files";
/** Where the collector stores file offsets, relative to the state folder. */
export const OFFSETS_FILE = "checkpoints/receiver_filelog_files";

export interface FilesInput {
  /** Contains only the links to the open files. */
  readonly folder: string;
  readonly maxAgeMs: number;
  readonly pollIntervalMs: number;
  /** True if so many files are open that comparing them with each other costs more than reading them. */
  readonly hasManyFiles: boolean;
  /** A line that matches starts a new record. */
  readonly multilineStart?: string | undefined;
  readonly parsing: NodeParsing;
  /** Level, time and trace are parsed from the line, here or in the backend. */
  readonly readsFields: boolean;
}

const HOST_FILES_ID = "transform/host-files";

export function files(input: FilesInput): Fragment {
  const { parsing, readsFields } = input;
  const isParsed = parsing === "fields";
  return {
    receivers: {
      [FILES_RECEIVER]: {
        include: linkPatterns(input.folder),
        ...fileReaderSettings(input.maxAgeMs, input.pollIntervalMs),
        ...(input.hasManyFiles && { max_concurrent_files: FEW_CONCURRENT_FILES }),
        include_file_name: false,
        include_file_path: true,
        // The backend replaces invalid bytes of lines that it parses.
        ...(!isParsed && { encoding: "utf8-raw" }),
        // Lines arrive as they were written: indented, with trailing spaces. A record of several lines would end with its newline.
        preserve_leading_whitespaces: true,
        preserve_trailing_whitespaces: input.multilineStart === undefined,
        ...(input.multilineStart !== undefined && { multiline: { line_start_pattern: input.multilineStart } }),
        operators: isParsed && readsFields ? logFields({ hasRuntimeTime: false, maxAgeMs: input.maxAgeMs }) : [],
      },
    },
    processors: {
      [HOST_FILES_ID]: fileAttributesFrom({
        resource: [...pathStatements(input.folder), SOURCE],
        scopes: isParsed ? [] : [nameScope(LINES), ...(readsFields ? [] : [withoutFields()])],
        keepsPath: parsing !== "nothing",
      }),
    },
    pipelines: [{ id: "logs/files", receivers: [FILES_RECEIVER], processors: [HOST_FILES_ID], blocks: true }],
  };
}

/** The collector (v0.149) compares each file with all files of its batch and of the previous one; a batch is half of this number. */
const FEW_CONCURRENT_FILES = 32;

const SOURCE = 'set(resource.attributes["service.name"], resource.attributes["log.file.name"])';

/** If a pipeline refuses a record, it is retried without limit, so that no record is lost. */
const RETRY = { enabled: true, initial_interval: "100ms", max_interval: "5s", max_elapsed_time: "0s" };

/** Receiver settings for lossless reading, the same for all files. */
export function fileReaderSettings(maxAgeMs: number, pollIntervalMs: number): Component {
  return {
    // A file that appears while the collector is down is read whole; `end` would skip it.
    start_at: "beginning",
    exclude_older_than: `${Math.round(maxAgeMs / 1000)}s`,
    poll_interval: `${pollIntervalMs}ms`,
    fingerprint_size: FINGERPRINT_BYTES,
    // A line without a newline is complete if nothing follows for so long: programs may write one line in several pieces.
    force_flush_period: "5s",
    // Identifies a line that is read again; it is not sent to the backend.
    include_file_record_offset: true,
    storage: CHECKPOINT_STORAGE,
    retry_on_failure: RETRY,
  };
}

export interface JournalInput {
  /** Absolute path of `journalctl`. */
  readonly program: string;
  /** Empty: all units and the kernel. */
  readonly units: readonly string[];
  readonly maxAgeMs: number;
  /** Level, time and trace are parsed from the line. */
  readonly readsFields: boolean;
}

const JOURNAL_RECEIVER = "journald";

const OWN_UNIT = "atherops-otel-agent.service";

export function journal({ program, units, maxAgeMs, readsFields }: JournalInput): Fragment {
  const fields = readsFields ? logFields({ hasRuntimeTime: true, maxAgeMs }) : [];
  const receiver: Component = {
    journalctl_path: program,
    ...(units.length > 0 && { units }),
    priority: "debug",
    // Otherwise, a message above 4 KiB has no text.
    all: true,
    convert_message_bytes: true,
    // The journal from before the first start may cover years.
    start_at: "end",
    storage: CHECKPOINT_STORAGE,
    retry_on_failure: RETRY,
    operators: [...ENTRY_TO_LOG, ...fields],
  };
  return {
    receivers: { [JOURNAL_RECEIVER]: receiver },
    pipelines: [{ id: "logs/journal", receivers: [JOURNAL_RECEIVER], processors: [], blocks: true }],
  };
}

/** Syslog priorities of each level. */
const LEVELS = { fatal: ["0", "1", "2"], error: ["3"], warn: ["4"], info: ["5", "6"], debug: ["7"] };
const KEPT_FIELDS: Readonly<Record<string, string>> = {
  _SYSTEMD_UNIT: "systemd.unit",
  SYSLOG_IDENTIFIER: "syslog.identifier",
  _PID: "process.pid",
};

const ENTRY_TO_LOG: readonly object[] = [
  { type: "filter", id: "journal-own", expr: `body["_SYSTEMD_UNIT"] == "${OWN_UNIT}"` },
  {
    type: "severity_parser",
    id: "journal-priority",
    parse_from: "body.PRIORITY",
    preset: "none",
    mapping: LEVELS,
    overwrite_text: true,
    if: 'body["PRIORITY"] != nil',
    on_error: "send_quiet",
  },
  ...Object.entries(KEPT_FIELDS).map(([field, attribute]) => ({
    type: "move",
    from: `body.${field}`,
    to: `attributes["${attribute}"]`,
    if: `type(body["${field}"]) == "string"`,
  })),
  {
    type: "add",
    field: 'resource["service.name"]',
    value: 'EXPR(attributes["systemd.unit"] ?? attributes["syslog.identifier"] ?? "journald")',
  },
  { type: "move", id: "journal-message", from: "body.MESSAGE", to: "body", if: 'type(body["MESSAGE"]) == "string"' },
  // Some programs write entries without a message.
  { type: "add", id: "journal-no-message", field: "body", value: "", if: 'type(body) == "map"' },
  { type: "sanitize_utf8", field: "body" },
];
