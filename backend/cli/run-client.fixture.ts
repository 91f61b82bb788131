// The client as a shell runs it, for tests: arguments and what is piped in, exit code and what was printed.
import { PassThrough } from "node:stream";
import type { World } from "./settings.ts";
import { run } from "./program.ts";

export interface Ran {
  code: number;
  out: string;
  err: string;
}

export interface RunOptions {
  url: string;
  sessionFile: string;
  input?: string;
  passwordFile?: string;
  signal?: AbortSignal;
}

/** `args`: a list where one of them holds a space. */
export async function runClient(
  args: string | readonly string[],
  { url, sessionFile, passwordFile, ...options }: RunOptions,
): Promise<Ran> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  stdin.end(options.input ?? "");
  const settings = { url, passwordFile, sessionFile };
  const world: World = { settings, stdin, stdout, stderr, signal: options.signal };
  const code = await run(typeof args === "string" ? args.split(" ") : args, world);
  return { code, out: String(stdout.read() ?? ""), err: String(stderr.read() ?? "") };
}
