// One of the two programs of `npm start`, as a child: its output goes to a file, its end is reported with the last lines. Invariant: it is in a
// process group of its own, so that Ctrl-C reaches `npm start` alone, which then stops both in order. Also here: the addresses at which both
// listen, checked before either starts.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fstatSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer } from "node:net";
import type { ParentMessage } from "../../backend/start-channel.ts";

const ROOT = dirname(dirname(import.meta.dirname));
const READY_WITHIN_MS = 90_000;
const STOP_WITHIN_MS = 60_000;
const ANSWER_WITHIN_MS = 5000;

export interface ProgramOptions {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** The file that its output is appended to. */
  readonly log: string;
  readonly stopping: AbortSignal;
  /** Whether it has an IPC channel for messages and questions. */
  readonly hasChannel?: boolean;
}

export class Program implements AsyncDisposable {
  readonly #name: string;
  readonly #log: string;
  /** Where in its log this run begins: what was before is of another. */
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

  /** Rejects when it ends of itself. */
  async exited(): Promise<void> {
    await this.#exit;
    if (!this.#stopping.aborted) throw this.#ended();
  }

  send(message: ParentMessage): void {
    if (this.#child.connected) this.#child.send(message);
  }

  /** For a link that logs in once; undefined where the backend makes none. */
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

// Where the programs of `npm start` listen: as the environment says, or as usual.

/** Variable, its default, and what listens there. */
const LISTENERS = [
  ["API_LISTEN", "127.0.0.1:8080", "the API"],
  ["ALERTING_LISTEN", "127.0.0.1:8082", "the alerting service"],
  ["HEALTH_LISTEN", "127.0.0.1:9090", "the backend's health"],
  ["EVALUATOR_LISTEN", "127.0.0.1:8880", "the rule evaluator"],
  ["PROXY_LISTEN", "127.0.0.1:9599", "the signing proxy"],
  ["AGENT_HEALTH_LISTEN", "127.0.0.1:9598", "the agent's health"],
  ["OTLP_GRPC_LISTEN", "127.0.0.1:4317", "OTLP over gRPC"],
  ["OTLP_HTTP_LISTEN", "127.0.0.1:4318", "OTLP over HTTP"],
] as const;

export function listenOf(wanted: (typeof LISTENERS)[number][0]): string {
  const [, fallback] = LISTENERS.find(([variable]) => variable === wanted) ?? ["", ""];
  return process.env[wanted] ?? fallback;
}

/**
 * Every port is tried before anything starts, so that a busy one is one sentence and not a half-started product. Throws StartError. A host
 * has to be there, because what is printed in the end are addresses to copy.
 */
export async function checkPorts(): Promise<void> {
  for (const [variable, fallback, what] of LISTENERS) {
    const listen = listenOf(variable);
    const [, host, port] = /^([^:[\]]+|\[[^\]]+\]):(\d{1,5})$/.exec(listen) ?? [];
    if (host === undefined || Number(port) > 65_535)
      throw new StartError(`${variable}=${listen} (${what}) is no address with a port: write it as ${fallback}`, { exitCode: 2 });
    const refused = await refusal(host.replace(/^\[(.*)\]$/, "$1"), Number(port));
    if (refused === "EADDRINUSE")
      throw new StartError(`port ${listen} (${what}) is in use: stop what listens there, or set ${variable}=127.0.0.1:<another port>`);
    if (refused !== undefined) throw new StartError(`${variable}=${listen} (${what}) cannot be listened at: ${refused}`);
  }
}

/** Undefined: it can be listened there. */
async function refusal(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  const refused = await new Promise<string | undefined>((done) => {
    server.once("error", (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    server.listen(port, host, () => done(undefined));
  });
  if (refused === undefined) await new Promise((done) => server.close(done));
  return refused;
}

/** What can go wrong with `npm start` and the user can fix: printed without a stack. */
export class StartError extends Error {
  /** 2 where another try is no use, because what was typed is wrong. */
  readonly exitCode: 1 | 2;

  constructor(message: string, { exitCode = 1 }: { exitCode?: 1 | 2 } = {}) {
    super(message);
    this.exitCode = exitCode;
  }
}
