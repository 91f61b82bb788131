// Runs the client like a shell, for tests: with arguments and piped input, returning exit code and output.
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

/** `args`: a list if an argument contains a space. */
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
