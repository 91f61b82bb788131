// Where a password comes from: a file, a pipe, or the keyboard without echo. Invariant: never a program argument, never printed; the echo
// is off before the prompt is there, because a program or a fast hand types as soon as it sees it.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { Problem } from "./cli-error.ts";

export interface PasswordInput {
  stdin: NodeJS.ReadStream;
  stderr: NodeJS.WritableStream;
}

/** From `file`, else from a pipe's whole text, else asked for. One line end at its end is dropped. */
export async function readPassword(prompt: string, { stdin, stderr }: PasswordInput, file?: string): Promise<string> {
  const password = file ? fileText(file) : stdin.isTTY ? await asked(prompt, stdin, stderr) : await text(stdin);
  const line = password.replace(/\r?\n$/, "");
  if (line === "") throw new Problem("the password is empty: type it, pipe it in, or name a file in ATHEROPS_PASSWORD_FILE");
  return line;
}

function fileText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Problem(`the password file ${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

async function asked(prompt: string, stdin: NodeJS.ReadStream, stderr: NodeJS.WritableStream): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: stdin, output: silent, terminal: true });
  stderr.write(prompt);
  try {
    return await terminal.question("");
  } catch (error) {
    if ((error as Error).name !== "AbortError") throw error;
    throw new Problem("no password was typed, nothing was done");
  } finally {
    terminal.close();
    stderr.write("\n");
  }
}
