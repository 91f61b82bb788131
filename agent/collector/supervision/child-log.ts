// Splits the collector's output into lines, logs each with its level, and keeps the last lines to explain a crash. Invariants: secrets are
// masked; a line is cut at MAX_LINE_LENGTH characters, but never within a secret; repeated errors of a failing receiver are logged once.
import type { Readable } from "node:stream";
import { maskSecrets } from "../../../common/mask.ts";
import type { Log } from "../../log.ts";
import { EXPORTERS } from "../config/collector-config.ts";
import { MAX_LINE_LENGTH, MAX_OUTAGES, MAX_QUIET_MS, MAX_REASON_LENGTH, MAX_SECRET_LENGTH } from "../../agent-limits.ts";

const KEPT_LINES = 6;

/** The line in which Go reports a crash. No lines are kept after it, because the stack trace would displace it. */
const CRASH = /^(panic|fatal error|unexpected fault address)\b/;

/** Keeps the last lines that report a problem; if there are none, the last lines. */
export class LastLines {
  #isDying = false;
  #lines: string[] = [];
  #errors: string[] = [];

  add(line: string, isError: boolean): void {
    if (this.#isDying) return;
    push(this.#lines, line);
    if (isError) push(this.#errors, line);
    this.#isDying = CRASH.test(line);
  }

  text(): string {
    return (this.#errors.length > 0 ? this.#errors : this.#lines).join("\n").slice(-MAX_REASON_LENGTH);
  }
}

function push(lines: string[], line: string): void {
  lines.push(line);
  if (lines.length > KEPT_LINES) lines.shift();
}

/** Messages of the events receiver before it ends for good, after a single error of the API server (k8sobjectsreceiver v0.146, startWatch). */
const EVENTS_END = /Watch channel closed unexpectedly|could not retrieve a resourceVersion|received data that wasnt unstructure/;

export function endsEvents(line: string): boolean {
  return line.includes('"k8sobjects"') && EVENTS_END.test(line);
}

const LEVELS: Record<string, "debug" | "info" | "warn" | "error"> = { debug: "debug", info: "info", warn: "warn" };
/** Start of a JSON line that was cut and can no longer be parsed. */
const CUT_ENTRY = /^\{"level":"(debug|info|warn)"/;

/** While the collector is stopping, its errors about interrupted requests are not logged: unsent data stays in the disk queue. */
export function reemit(raw: string, log: Log, last: LastLines, isStopping = false, outages?: Outages): void {
  if (raw.trim() === "") return;
  const line = maskSecrets(raw);
  const entry = parse(line);
  if (!entry) {
    // A panic, a message from before the logger was set up, or a log line that was cut.
    const level = LEVELS[CUT_ENTRY.exec(line)?.[1] ?? ""] ?? "error";
    last.add(line, level === "error");
    log[level]({ component: "collector" }, line);
    return;
  }
  const { level, msg, ts: _ts, caller: _caller, resource: _resource, stacktrace: _stack, ...fields } = entry;
  const rest = renameReserved(fields);
  if (isKept(entry)) {
    log[isStopping ? "debug" : "info"]({ ...rest, dropped_items: undefined, items: entry["dropped_items"], component: "collector" }, KEPT);
    return;
  }
  const known = LEVELS[String(level)] ?? "error";
  last.add(`${String(msg)}${typeof rest["error"] === "string" ? `: ${rest["error"]}` : ""}`, known === "error");
  if (outages && isRepeated(entry, known, outages)) return;
  log[isStopping ? "debug" : known]({ ...rest, component: "collector" }, String(msg));
}

const KEPT = "collector stopped before it delivered these items; they stay in the disk queue";

/**
 * A stopping collector logs "Dropping data" also for exporters whose queue is on disk, although their data is kept: such a queue removes an
 * entry only if sending ended other than by the shutdown (exporterhelper v0.149, internal/queue/persistent_queue.go, onDone).
 */
function isKept({ msg, error, "otelcol.component.id": id }: Record<string, unknown>): boolean {
  return (
    String(msg).startsWith("Exporting failed. Dropping data") &&
    String(error).startsWith("interrupted due to shutdown") &&
    EXPORTERS.includes(String(id))
  );
}

/** Renames fields that the agent's logger sets too, because a JSON line must not repeat a key. */
function renameReserved(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [RESERVED.has(key) ? `collector_${key}` : key, value]));
}

const RESERVED = new Set(["pid", "hostname", "name", "time"]);

function isRepeated(entry: Record<string, unknown>, level: string, outages: Outages): boolean {
  const { ts: _ts, "otelcol.component.kind": kind, "otelcol.component.id": id, ...rest } = entry;
  // A processor repeats the error of a condition for each record; its other lines, such as those of the memory limiter, have numbers.
  if (
    (kind !== "receiver" && !(kind === "processor" && "error" in rest)) ||
    typeof id !== "string" ||
    (level !== "warn" && level !== "error")
  )
    return false;
  return !outages.isNews({ receiver: id, text: JSON.stringify(rest) });
}

function parse(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    return "level" in entry && "msg" in entry ? entry : undefined;
  } catch {
    return undefined;
  }
}

export const CUT_MARK = "… [cut: the line is longer than 64 KiB]";

/** Calls `onLine` with each line of `stream` (UTF-8), including a last line without a line end. */
export function eachLine(stream: Readable, onLine: (line: string) => void): void {
  let line = "";
  let isCut = false;
  const add = (text: string): void => {
    if (isCut) return;
    line += text;
    if (line.length <= MAX_LINE_LENGTH) return;
    isCut = true;
    onLine(cut(line));
    line = "";
  };
  const end = (): void => {
    if (!isCut) onLine(line.endsWith("\r") ? line.slice(0, -1) : line);
    line = "";
    isCut = false;
  };
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const [rest = "", ...nextLines] = text.split("\n");
    add(rest);
    for (const nextLine of nextLines) {
      end();
      add(nextLine);
    }
  });
  stream.on("end", () => {
    if (line !== "") end();
  });
}

/** Cuts after the last whole word, or earlier by a secret's length. */
function cut(line: string): string {
  const start = line.slice(0, MAX_LINE_LENGTH);
  const wordAt = Math.max(start.lastIndexOf(" "), start.lastIndexOf('"')) + 1;
  return `${start.slice(0, Math.max(wordAt, MAX_LINE_LENGTH - MAX_SECRET_LENGTH))}${CUT_MARK}`;
}

// Logs repeated errors of receivers and processors once. They log the same lines for each failed read or record; the agent logs the first
// ones, and one line when the outage is over. Invariant: at most MAX_OUTAGES outages are tracked; all lines of further outages are logged.

const MIN_QUIET_MS = 30_000;
/** An outage is over when no error arrives for this many times the pause between its last two errors. */
const QUIET_PAUSES = 3;

/** Receivers with a single target: all their errors, several lines per read, are one outage. */
const SINGLE_TARGET = ["kubeletstats", "prometheus/cadvisor"];

interface Outage {
  readonly since: number;
  lastAt: number;
  /** Time between the lines of the last two reads; 0 after only one read. */
  pauseMs: number;
  repeated: number;
  timer: NodeJS.Timeout;
}

interface ReceiverLine {
  readonly receiver: string;
  /** The line without its time and receiver. */
  readonly text: string;
}

export class Outages implements Disposable {
  readonly #log: Log;
  readonly #minQuietMs: number;
  readonly #outages = new Map<string, Outage>();

  constructor(log: Log, minQuietMs = MIN_QUIET_MS) {
    this.#log = log;
    this.#minQuietMs = minQuietMs;
  }

  /** False if the line repeats an error of a current outage. */
  isNews(line: ReceiverLine): boolean {
    const { receiver, text } = line;
    const key = SINGLE_TARGET.includes(receiver) ? receiver : `${receiver}\n${text}`;
    const now = performance.now();
    const known = this.#outages.get(key);
    if (known) {
      clearTimeout(known.timer);
      // Lines of one read arrive together.
      if (now - known.lastAt >= 500) {
        known.pauseMs = now - known.lastAt;
        known.repeated++;
      }
      known.lastAt = now;
      known.timer = this.#awaitEnd(key, receiver, known.pauseMs);
      return false;
    }
    if (this.#outages.size < MAX_OUTAGES) {
      this.#outages.set(key, { since: now, lastAt: now, pauseMs: 0, repeated: 0, timer: this.#awaitEnd(key, receiver, 0) });
    }
    return true;
  }

  #awaitEnd(key: string, receiver: string, pauseMs: number): NodeJS.Timeout {
    const quietMs = pauseMs === 0 ? MAX_QUIET_MS : Math.min(Math.max(pauseMs * QUIET_PAUSES, this.#minQuietMs), MAX_QUIET_MS);
    return setTimeout(() => this.#end(key, receiver), quietMs).unref();
  }

  #end(key: string, receiver: string): void {
    const { since, lastAt, repeated } = this.#outages.get(key) ?? { since: 0, lastAt: 0, repeated: 0 };
    this.#outages.delete(key);
    if (repeated === 0) return;
    const fields = { component: "collector", receiver, repeated, for_s: Math.round((lastAt - since) / 1000) };
    this.#log.info({ event: "collector.receiver_recovered", ...fields }, `${receiver} reports no more errors`);
  }

  /** After this, no line is logged. */
  [Symbol.dispose](): void {
    for (const { timer } of this.#outages.values()) clearTimeout(timer);
    this.#outages.clear();
  }
}
