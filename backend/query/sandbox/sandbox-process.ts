// Controls one sandbox process and its job. Invariant: whatever the job computes, the process stays within its limits or is killed; the
// backend only waits for its messages.
import { type ChildProcess, fork } from "node:child_process";
import { addAbortListener } from "node:events";
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { ApiError, TooLargeError } from "../../errors.ts";
import { MAX_STDERR_CHARACTERS } from "../query-limits.ts";
import { ABORT_MS, LIFETIME_CPU_S, POLL_MS, type SandboxLimits, START_MS } from "./sandbox-limits.ts";
import type { FromSandbox, Question, SentError, ToSandbox } from "./protocol.ts";
import { readFileSync } from "node:fs";

export interface ProcessUsage {
  readonly cpuMs: number;
  /** Resident memory without file-backed pages, such as the program itself. */
  readonly anonymousBytes: number;
}

/** Linux on all architectures that Node supports has 100 ticks a second. */
const TICK_MS = 10;
/** Bytes of the engine's result per message. */
const PIECE_BYTES = 1024 * 1024;

/** CPU time and memory of a child from /proc, because a busy process cannot respond. Undefined if it has ended, and without Linux. */
export function readProcessUsage(pid: number): ProcessUsage | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // proc(5): the program's name is in parentheses and may contain any character; utime and stime are fields 14 and 15 of the whole line.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const [, kibibytes] = /^RssAnon:\s+(\d+) kB$/m.exec(status) ?? /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
    return { cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS, anonymousBytes: Number(kibibytes ?? 0) * 1024 };
  } catch {
    return undefined;
  }
}

/** Why a process was killed, or exited while it had a job. */
export type KillReason = "cpu_time" | "no_progress" | "memory" | "crash" | "client_gone";

export type Answer = (question: Question) => Promise<Buffer>;

interface RunningJob {
  readonly ask: Answer;
  readonly resolve: (answer: Buffer) => void;
  readonly reject: (error: unknown) => void;
  /** Errors of statements, by statement number. */
  readonly errors: unknown[];
  isWaitingForRows: boolean;
}

/** Disables core dumps, and lets the kernel end the process if the backend is killed first. */
const BOUNDED = `ulimit -c 0; ulimit -t ${LIFETIME_CPU_S}; exec "$0" "$@"`;
/** Signals that V8 and the kernel use to end a process that is out of memory. */
const MEMORY_SIGNALS = new Set<string>(["SIGABRT", "SIGTRAP", "SIGILL", "SIGKILL"]);

export class SandboxProcess {
  /** Resolves when the process has ended. */
  readonly exited: Promise<void>;
  /** Called if the running job causes the end of the process. */
  onKilled: (reason: KillReason) => void = () => undefined;
  readonly #child: ChildProcess;
  readonly #limits: SandboxLimits;
  readonly #ready = Promise.withResolvers<void>();
  #running: RunningJob | undefined;
  #refusal: unknown;
  #stderr = "";

  constructor(script: URL, limits: SandboxLimits) {
    this.#limits = limits;
    // Without the backend's environment variables, which may contain secrets.
    this.#child = fork(fileURLToPath(script), [], {
      execPath: "/bin/sh",
      execArgv: ["-c", BOUNDED, process.execPath, `--max-old-space-size=${limits.heapMib}`, "--max-semi-space-size=4"],
      env: compiledCode(),
      serialization: "advanced",
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    const exited = Promise.withResolvers<void>();
    this.exited = exited.promise;
    this.#child.on("message", (message: FromSandbox) => this.#handleMessage(message));
    this.#child.once("exit", (_code, signal) => this.#ended(signal, exited.resolve));
    this.#child.once("error", (cause) => {
      this.#refusal ??= unavailable(cause);
      this.#ended(null, exited.resolve);
    });
    this.#child.stderr
      ?.setEncoding("utf8")
      .on("data", (text: string) => (this.#stderr = (this.#stderr + text).slice(-MAX_STDERR_CHARACTERS)));
    const startTimer = setTimeout(() => this.kill(unavailable(new Error("a sandbox process did not start"))), START_MS);
    const stopTimer = (): void => clearTimeout(startTimer);
    this.#ready.promise.then(stopTimer, stopTimer);
  }

  /** False if the next job needs a new process. */
  get isReusable(): boolean {
    if (this.#refusal !== undefined || !this.#child.connected) return false;
    const usage = this.#usage();
    return !usage || (usage.anonymousBytes <= this.#limits.keptBytes && usage.cpuMs < (LIFETIME_CPU_S * 1000) / 2);
  }

  /**
   * Throws the error of the job, or query_too_expensive if the process is killed. After an abort, it settles once the process has noticed
   * or was killed.
   */
  async run(job: unknown, ask: Answer, signal: AbortSignal): Promise<Buffer> {
    await this.#ready.promise;
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    this.#running = { ask, resolve, reject, errors: [], isWaitingForRows: false };
    let grace: NodeJS.Timeout | undefined;
    using _watching = this.#watch();
    using _listening = addAbortListener(signal, () => {
      this.#send({ type: "abort" });
      grace = setTimeout(() => this.#end("client_gone"), ABORT_MS);
    });
    this.#send({ type: "run", job });
    try {
      return await promise;
    } finally {
      clearTimeout(grace);
    }
  }

  /** Ends the process without logs and metrics; a running job fails with `refusal`. */
  kill(refusal: unknown): void {
    this.#refusal ??= refusal;
    this.#child.kill("SIGKILL");
  }

  #end(reason: Exclude<KillReason, "crash">): void {
    if (this.#refusal !== undefined) return;
    this.#refusal = this.#tooExpensive(reason);
    this.onKilled(reason);
    this.#child.kill("SIGKILL");
  }

  #tooExpensive(reason: KillReason): ApiError {
    const { cpuMs, anonymousBytes } = this.#limits;
    const problem = {
      cpu_time: `takes more than ${cpuMs / 1000} s of CPU time`,
      no_progress: "makes no progress",
      memory: `takes more than ${anonymousBytes / 1024 / 1024} MiB of memory`,
      crash: "cannot be evaluated",
      client_gone: "was abandoned",
    }[reason];
    const advice = "add line filters or labels to the selector, ask for a shorter range, or simplify the query";
    return new ApiError("query_too_expensive", `this query ${problem} and was stopped: ${advice}`);
  }

  #ended(signal: string | null, resolve: () => void): void {
    if (this.#refusal === undefined && this.#running) {
      const reason = signal !== null && MEMORY_SIGNALS.has(signal) ? "memory" : "crash";
      this.#refusal = this.#tooExpensive(reason);
      this.onKilled(reason);
    }
    this.#refusal ??= unavailable(new Error(`a sandbox process ended: ${this.#stderr}`));
    this.#ready.promise.catch(() => undefined);
    this.#ready.reject(this.#refusal);
    this.#settle()?.reject(this.#refusal);
    resolve();
  }

  #handleMessage(message: FromSandbox): void {
    if (message.type === "ready") return this.#ready.resolve();
    if (message.type === "ask") return void this.#answerQuestion(message);
    const running = this.#settle();
    if (message.type === "answer")
      return running?.resolve(Buffer.from(message.answer.buffer, message.answer.byteOffset, message.answer.byteLength));
    const { code, message: text, original } = message.error;
    if (original !== undefined) return running?.reject(running.errors[original]);
    running?.reject(code === "internal" ? new Error(text) : new ApiError(code, text));
  }

  #settle(): RunningJob | undefined {
    const running = this.#running;
    this.#running = undefined;
    return running;
  }

  async #answerQuestion(question: Question): Promise<void> {
    const running = this.#running;
    if (!running) return;
    running.isWaitingForRows = true;
    try {
      await this.#sendRows(await running.ask(question));
    } catch (error) {
      this.#send({ type: "error", error: toSent(error, running.errors.push(error) - 1) });
    } finally {
      running.isWaitingForRows = false;
    }
  }

  /** Sends the rows in chunks, one after the other, because the channel holds several copies of a message. */
  async #sendRows(rows: Buffer): Promise<void> {
    for (let at = 0, isLast = false; !isLast && this.#child.connected; at += PIECE_BYTES) {
      isLast = at + PIECE_BYTES >= rows.length;
      const message: ToSandbox = { type: "rows", piece: rows.subarray(at, at + PIECE_BYTES), isLast };
      await new Promise((resolve) => this.#child.send(message, resolve));
    }
  }

  #send(message: ToSandbox): void {
    // Safe to ignore: a process that no longer accepts messages has ended, or its limits end it.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #usage(): ProcessUsage | undefined {
    return this.#child.pid === undefined ? undefined : readProcessUsage(this.#child.pid);
  }

  #watch(): Disposable {
    const { cpuMs, wallMs, anonymousBytes } = this.#limits;
    const beforeMs = this.#usage()?.cpuMs ?? 0;
    let busyMs = 0;
    const check = (): void => {
      if (!this.#running?.isWaitingForRows) busyMs += POLL_MS;
      const usage = this.#usage();
      if (usage && usage.anonymousBytes > anonymousBytes) this.#end("memory");
      else if (usage && usage.cpuMs - beforeMs > cpuMs) this.#end("cpu_time");
      else if (busyMs > wallMs) this.#end("no_progress");
    };
    const timer = setInterval(check, POLL_MS);
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }
}

/** The folder in which the backend keeps what V8 compiled (main.ts), if it does: a start then takes half as long. */
function compiledCode(): Record<string, string> {
  const folder = getCompileCacheDir();
  // Its last part is the version of V8 with its options.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

function toSent(error: unknown, original: number): SentError {
  if (!(error instanceof ApiError)) return { code: "internal", message: error instanceof Error ? error.message : String(error), original };
  const reported = (error.cause ?? {}) as { code?: string | number; message?: string };
  const sent = { code: reported.code === undefined ? undefined : String(reported.code), message: reported.message ?? "" };
  return { code: error.code, message: error.message, isTooLarge: error instanceof TooLargeError, cause: sent, original };
}

function unavailable(cause: unknown): ApiError {
  return new ApiError("unavailable", "the evaluation of queries was interrupted; try again", { cause, retryAfterS: 1 });
}
