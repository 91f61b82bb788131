// Entries of systemd's journal on a host, as its `journalctl` follows them. Invariants: an entry is handed on in the order of the journal, and
// waits while the disk queue is full; the agent's own lines are left out, else each line about sending lines would become another.
// The place in the journal is remembered before an entry is handed on (pkg/stanza v0.149, operator/input/journald): a collector that is killed
// in between loses that one.
import { CHECKPOINT_STORAGE, type Component, type Fragment } from "./fragment.ts";
import { logFields } from "./log-fields.ts";

export interface JournalInput {
  /** Absolute path of `journalctl`. */
  readonly program: string;
  /** Empty: of all units, and of the kernel. */
  readonly units: readonly string[];
  readonly maxAgeMs: number;
  /** Level, time and trace are taken out of what lines say. */
  readonly readsFields: boolean;
}

export const JOURNAL_RECEIVER = "journald";

const OWN_UNIT = "atherops-otel-agent.service";

export function journal({ program, units, maxAgeMs, readsFields }: JournalInput): Fragment {
  const fields = readsFields ? logFields({ hasRuntimeTime: true, maxAgeMs }) : [];
  const receiver: Component = {
    journalctl_path: program,
    ...(units.length > 0 && { units }),
    priority: "debug",
    // Else a message above 4 KiB has no text.
    all: true,
    convert_message_bytes: true,
    // What was there before the first start may be years.
    start_at: "end",
    storage: CHECKPOINT_STORAGE,
    retry_on_failure: { enabled: true, initial_interval: "100ms", max_interval: "5s", max_elapsed_time: "0s" },
    operators: [...AS_LOG, ...fields],
  };
  return {
    receivers: { [JOURNAL_RECEIVER]: receiver },
    pipelines: [{ id: "logs/journal", receivers: [JOURNAL_RECEIVER], processors: [], waits: true }],
  };
}

/** Syslog's priorities. */
const LEVELS = { fatal: ["0", "1", "2"], error: ["3"], warn: ["4"], info: ["5", "6"], debug: ["7"] };
const KEPT: Readonly<Record<string, string>> = {
  _SYSTEMD_UNIT: "systemd.unit",
  SYSLOG_IDENTIFIER: "syslog.identifier",
  _PID: "process.pid",
};

const AS_LOG: readonly object[] = [
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
  ...Object.entries(KEPT).map(([field, attribute]) => ({
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
  // Without a text: an entry of a program that knows none.
  { type: "add", id: "journal-no-message", field: "body", value: "", if: 'type(body) == "map"' },
  { type: "sanitize_utf8", field: "body" },
];
