#!/usr/bin/env node
// Entry point of the admin client; cli/program.ts implements it.
import { run } from "../program.ts";
import { readClientSettings } from "../settings.ts";

const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort());
process.once("SIGTERM", () => interrupted.abort());
// `atherops logs | head` closes the pipe: this ends the program and is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  process.stderr.write(`atherops: the output cannot be written: ${error.code ?? error.message}\n`);
  process.exit(1);
});

process.exitCode = await run(process.argv.slice(2), {
  settings: readClientSettings(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: interrupted.signal,
});
