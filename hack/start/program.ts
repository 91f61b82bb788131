// Runs one of the two programs of `npm start` as a child process with its output in a file; an unexpected exit is reported with the last lines.
// Invariant: it runs in its own process group, so that Ctrl-C reaches only `npm start`, which then stops both in order.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fstatSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ParentMessage } from "../../backend/launcher-channel.ts";

const ROOT = dirname(dirname(import.meta.dirname));
const READY_WITHIN_MS = 90_000;
const STOP_WITHIN_MS = 60_000;
const ANSWER_WITHIN_MS = 5000;

export interface ProgramOptions {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** The file to which its output is appended. */
  readonly log: string;
  readonly stopping: AbortSignal;
  /** Whether it has an IPC channel for messages and questions. */
  readonly hasChannel?: boolean;
}

export class Program implements AsyncDisposable {
  readonly #name: string;
  readonly #log: string;
  /** Offset in the log at which this run begins. */
  readonly #beginsAt: number;
  readonly #stopping: AbortSignal;
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown>;

  constructor({ name, args, env, log, stopping, hasChannel = false }: ProgramOptions) {
    this.#name = name;
    this.#log = log;
    this.#stopping = stopping;
    const out = openSync(log, "a", 0o600);
    this.#beginsAt = fstatSync(out).size;
    const stdio = ["ignore" as const, out, out, ...(hasChannel ? ["ipc" as const] : [])];
    this.#child = spawn(process.execPath, args, { cwd: ROOT, env, stdio, detached: true });
    this.#exit = once(this.#child, "exit");
    console.log(`starting the ${name} (pid ${this.#child.pid}), its log is ${log}`);
  }

  async ready(url: string): Promise<void> {
    const deadline = Date.now() + READY_WITHIN_MS;
    while (Date.now() < deadline) {
      if (this.#stopping.aborted) throw new StartError("stopped before it was ready");
      if (this.#child.exitCode !== null) throw this.#ended();
      const answer = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
      if (answer?.ok) return;
      await sleep(100);
    }
    throw new StartError(`the ${this.#name} is not ready after ${READY_WITHIN_MS / 1000} s:\n${this.#lastLines()}`);
  }

  /** Rejects if the program exits without being stopped. */
  async exited(): Promise<void> {
    await this.#exit;
    if (!this.#stopping.aborted) throw this.#ended();
  }

  send(message: ParentMessage): void {
    if (this.#child.connected) this.#child.send(message);
  }

  /** For a link that logs in once; undefined if the backend returns none. */
  async loginCode(): Promise<string | undefined> {
    const answered = once(this.#child, "message", { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    this.send({ want: "login code" });
    const [answer] = (await answered.catch(() => [])) as { loginCode?: string }[];
    return answer?.loginCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGTERM");
    const cut = setTimeout(() => this.#child.kill("SIGKILL"), STOP_WITHIN_MS);
    await this.#exit;
    clearTimeout(cut);
    console.log(`the ${this.#name} has stopped`);
  }

  #ended(): StartError {
    return new StartError(`the ${this.#name} ended with ${this.#child.exitCode}:\n${this.#lastLines()}`);
  }

  #lastLines(): string {
    return readFileSync(this.#log)
      .subarray(this.#beginsAt)
      .toString()
      .trimEnd()
      .split("\n")
      .slice(-8)
      .map((line) => `    ${line}`)
      .join("\n");
  }
}

/** A failure of `npm start` that the user can fix; printed without a stack trace. */
export class StartError extends Error {
  /** 2 if retrying is useless because the input is wrong. */
  readonly exitCode: 1 | 2;

  constructor(message: string, { exitCode = 1 }: { exitCode?: 1 | 2 } = {}) {
    super(message);
    this.exitCode = exitCode;
  }
}
