// Writes decoded records as TabSeparated rows, cut by day of their own time. Invariant: whatever a record holds, it is one row of its
// columns; a time that cannot be kept is dropped and counted, so no block ever spans an absurd range of days. Used by decode.ts of logs
// and traces, on any thread; the stores insert the sections as they are.

/** What the rows of a body carry beside the records: from the key and the receipt, never from the payload. */
export interface RowContext {
  readonly orgId: string;
  readonly hostId: string;
  readonly node: string;
  readonly receivedAtMs: number;
  /** The first of the ids that this body may use, consecutive; decimal digits. */
  readonly firstId: string;
  /** First 8 bytes of the body's SHA-256 as an unsigned integer. */
  readonly bodyHash: string;
  /** Records older than this are dropped. */
  readonly retentionDays: number;
}

/** The rows of one day (of the record's time, UTC): one partition. */
export interface DaySection {
  /** Days since 1970-01-01. */
  readonly day: number;
  readonly count: number;
  readonly rows: Uint8Array;
}

/** A body decoded. Plain data, so that it passes between threads. */
export interface DecodedBody {
  readonly sections: DaySection[];
  readonly accepted: number;
  readonly dropped: Record<string, number>;
  /** Set when every record carries its own time: the body is then stored once however often it comes. */
  readonly bodyHash: string | undefined;
}

/** The first columns of every table; `SectionWriter` writes them. */
export const COMMON_COLUMNS = ["org_id", "host_id", "node", "received_at", "body_hash", "time", "id"] as const;

const DAY_S = 86_400;
/** Ids are written as a constant prefix and a counter of 12 digits. */
const ID_TAIL = 1_000_000_000_000n;

export class SectionWriter {
  readonly #days = new Map<number, { text: string; count: number }>();
  readonly #context: RowContext;
  readonly #prefix: string;
  readonly #oldestS: number;
  readonly #newestS: number;
  readonly #idHead: string;
  #idTail: number;
  #accepted = 0;
  #everyRecordTimed = true;
  readonly #dropped: Record<string, number> = {};

  constructor(context: RowContext) {
    this.#context = context;
    this.#prefix = [context.orgId, context.hostId, context.node, String(Math.floor(context.receivedAtMs / 1000))].map(escape).join("\t");
    const nowS = context.receivedAtMs / 1000;
    // The engine reads a time of fewer than 10 digits otherwise; 2001 is before any retention.
    this.#oldestS = Math.max(1_000_000_000, nowS - context.retentionDays * DAY_S);
    this.#newestS = nowS + DAY_S;
    const firstId = BigInt(context.firstId);
    this.#idHead = (firstId / ID_TAIL).toString();
    this.#idTail = Number(firstId % ID_TAIL);
  }

  /** Counts a record that is well-formed but cannot be kept. */
  drop(reason: string): void {
    this.#dropped[reason] = (this.#dropped[reason] ?? 0) + 1;
  }

  /**
   * Adds a row at `nanoseconds` (decimal digits; "": the time of receipt). `cells` are the escaped cells after the common columns,
   * joined by tabs.
   */
  add(nanoseconds: string, cells: string): void {
    let seconds: string;
    let fraction: string;
    if (nanoseconds === "") {
      this.#everyRecordTimed = false;
      seconds = String(Math.floor(this.#context.receivedAtMs / 1000));
      fraction = `${String(this.#context.receivedAtMs % 1000).padStart(3, "0")}000000`;
    } else {
      seconds = nanoseconds.slice(0, -9);
      fraction = nanoseconds.slice(-9);
    }
    const at = Number(seconds);
    if (at < this.#oldestS) return this.drop("too_old");
    if (at > this.#newestS) return this.drop("too_far_ahead");
    const day = Math.floor(at / DAY_S);
    let section = this.#days.get(day);
    if (!section) this.#days.set(day, (section = { text: "", count: 0 }));
    section.text += `${this.#prefix}\t${this.#context.bodyHash}\t${seconds}.${fraction}\t${this.#nextId()}\t${cells}\n`;
    section.count += 1;
    this.#accepted += 1;
  }

  finish(): DecodedBody {
    const encoder = new TextEncoder();
    const sections = [...this.#days].map(([day, { text, count }]) => ({ day, count, rows: encoder.encode(text) }));
    return {
      sections,
      accepted: this.#accepted,
      dropped: this.#dropped,
      bodyHash: this.#everyRecordTimed ? this.#context.bodyHash : undefined,
    };
  }

  #nextId(): string {
    const tail = this.#idTail;
    this.#idTail += 1;
    return this.#idHead + String(tail).padStart(12, "0");
  }
}

const ESCAPES: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "'": "\\'" };

/** A String cell of TabSeparated. */
export function escape(text: string): string {
  return /[\\\t\n\r\0]/.test(text) ? text.replace(/[\\\t\n\r\0]/g, (char) => ESCAPES[char] as string) : text;
}

/** A string within a Map or Array cell. */
export function quote(text: string): string {
  return `'${/[\\\t\n\r\0']/.test(text) ? text.replace(/[\\\t\n\r\0']/g, (char) => ESCAPES[char] as string) : text}'`;
}
