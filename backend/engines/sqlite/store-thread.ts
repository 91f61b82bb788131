// Runs the statements of the embedded store on a thread, which is restarted after it ends or hangs. SQLite's failures get PostgreSQL's
// codes, so that callers handle a single list. Invariants: every statement gets one result, even if the thread ends; a transaction fails
// with its thread; at most one thread has the file open; an error contains the engine's message, but no value that was bound to the
// statement.
import { Worker } from "node:worker_threads";
import type { Log } from "../../log.ts";
import type { Answer, Statement } from "./thread.ts";

/** SQLSTATE by SQLite's extended result code, or by its lowest byte, the primary code. */
const SQLSTATE: Record<number, string> = {
  // SQLITE_CONSTRAINT_PRIMARYKEY, _UNIQUE, _ROWID
  1555: "23505",
  2067: "23505",
  2579: "23505",
  // SQLITE_CONSTRAINT_FOREIGNKEY, _NOTNULL, _CHECK
  787: "23503",
  1299: "23502",
  275: "23514",
  // SQLITE_BUSY: another process holds the file
  5: "55P03",
  // SQLITE_NOMEM, _FULL
  7: "53200",
  13: "53100",
  // SQLITE_READONLY, _IOERR, _CANTOPEN, _PROTOCOL: the disk
  8: "58030",
  10: "58030",
  14: "58030",
  15: "58030",
  // SQLITE_CORRUPT, _NOTADB
  11: "XX001",
  26: "XX001",
};

/** The thread has ended. */
const THREAD_LOST = "08006";
/** The thread does not respond in time. */
export const TOO_LONG = "57014";

const SQLITE_IOERR = 10;

/** `code` is the SQLSTATE, if there is one for the failure. */
export class SqliteFailure extends Error {
  override readonly name = "SqliteFailure";
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** `errcode`: as reported by node:sqlite. */
function sqlstateOf(errcode: number | undefined): string | undefined {
  return errcode === undefined ? undefined : (SQLSTATE[errcode] ?? SQLSTATE[errcode & 0xff]);
}

/** Longer than PostgreSQL's `statement_timeout`: only a disk that hangs takes this long. */
const STATEMENT_TIMEOUT_MS = 30_000;
const CLOSE_TIMEOUT_MS = 10_000;

export type Result = Extract<Answer, { rows: unknown }> | Extract<Answer, { changes: unknown }>;

interface Waiting {
  readonly resolve: (result: Result) => void;
  readonly reject: (error: SqliteFailure) => void;
  readonly timer: NodeJS.Timeout;
}

export class StoreThread implements AsyncDisposable {
  readonly #file: string;
  readonly #log: Log;
  readonly #script: URL;
  readonly #statementTimeoutMs: number;
  #running: RunningThread | undefined;
  #closed = false;

  constructor(options: { file: string; log: Log; script?: URL; statementTimeoutMs?: number }) {
    const { file, log, script = new URL("./thread.ts", import.meta.url), statementTimeoutMs = STATEMENT_TIMEOUT_MS } = options;
    this.#file = file;
    this.#log = log;
    this.#script = script;
    this.#statementTimeoutMs = statementTimeoutMs;
  }

  /** The running thread, started if necessary. Throws SqliteFailure if the file cannot be opened, or if a thread is ending. */
  async running(): Promise<RunningThread> {
    if (this.#closed) throw lost("the store is closed");
    this.#running ??= this.#begin();
    const running = this.#running;
    await running.opened;
    return running;
  }

  #begin(): RunningThread {
    const running = new RunningThread(this.#script, this.#file, this.#statementTimeoutMs);
    void this.#followed(running);
    return running;
  }

  async #followed(running: RunningThread): Promise<void> {
    const reason = await running.ended;
    this.#running = undefined;
    if (this.#closed || !running.wasOpened) return;
    this.#log.error({ event: "accounts.thread_ended", reason }, "SQLite thread ended; the next statement restarts it");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#running?.close();
  }
}

/** One run of the thread, from start to end. */
export class RunningThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #statementTimeoutMs: number;
  #number = 0;
  #over: { readonly reason: string; readonly code: string } | undefined;
  readonly opened: Promise<void>;
  wasOpened = false;
  /** Resolves with the reason. */
  readonly ended: Promise<string>;

  constructor(script: URL, file: string, statementTimeoutMs: number) {
    this.#statementTimeoutMs = statementTimeoutMs;
    this.#worker = new Worker(script, {
      workerData: { file },
      env: {},
      execArgv: [],
    });
    const opened = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.#worker.on("message", (answer: Answer) => {
      if ("opened" in answer) {
        this.wasOpened = true;
        opened.resolve();
      }
      if ("fatal" in answer) opened.reject(new SqliteFailure(answer.fatal, sqlstateOf(answer.errcode)));
      if ("id" in answer) this.#settle(answer);
    });
    this.#worker.on("error", (error) => this.end((error as Error).message));
    this.ended = this.#exit(opened.reject);
    // Callers that await `opened` get the rejection; without a caller it must not end the process.
    this.opened.catch(() => undefined);
  }

  async #exit(rejectOpened: (error: SqliteFailure) => void): Promise<string> {
    await new Promise((resolve) => this.#worker.once("exit", resolve));
    this.end("the thread ended");
    const { reason, code } = this.#over ?? { reason: "", code: THREAD_LOST };
    rejectOpened(lost(reason, code));
    return reason;
  }

  /** Throws SqliteFailure. */
  async run(sql: string, parameters: readonly unknown[]): Promise<Result> {
    if (this.#over !== undefined) throw lost(this.#over.reason, this.#over.code);
    const id = ++this.#number;
    return await new Promise<Result>((resolve, reject) => {
      this.#post({ id, sql, parameters });
      const timer = setTimeout(() => this.end("a statement was not answered in time", TOO_LONG), this.#statementTimeoutMs);
      this.#waiting.set(id, { resolve, reject, timer });
    });
  }

  /** Lets the thread finish its statements and close the file. */
  async close(): Promise<void> {
    const timer = setTimeout(() => this.end("it did not close in time"), CLOSE_TIMEOUT_MS);
    this.#post("close");
    await this.ended;
    clearTimeout(timer);
  }

  #post(message: Statement | "close"): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(message);
  }

  #settle(answer: Extract<Answer, { id: number }>): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    clearTimeout(waiting?.timer);
    if (!("message" in answer)) return waiting?.resolve(answer);
    waiting?.reject(new SqliteFailure(answer.message, sqlstateOf(answer.errcode)));
    // The disk refused a write, so the state of the file in the thread cannot be trusted.
    if (answer.errcode !== undefined && (answer.errcode & 0xff) === SQLITE_IOERR) this.end(answer.message);
  }

  /** Rejects waiting and later statements. */
  end(reason: string, code = THREAD_LOST): void {
    if (this.#over !== undefined) return;
    this.#over = { reason, code };
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(lost(reason, code));
    }
    this.#waiting.clear();
    void this.#worker.terminate();
  }
}

function lost(reason: string, code = THREAD_LOST): SqliteFailure {
  return new SqliteFailure(`the thread of the accounts store is gone: ${reason}`, code);
}
