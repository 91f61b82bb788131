// Stores the admin client's session in a file between commands, and reads a password from a file, a pipe, or the keyboard without echo.
// Invariants: only its owner can read the session file, which is replaced as a whole; an unusable path is a Problem that names it. A
// password is never a program argument and never printed; echo is off before the prompt appears, because a program may type at once.
import { accessSync, constants, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { makeFolder } from "../../common/files.ts";
import { Problem } from "./cli-error.ts";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import type { Input } from "./settings.ts";
import { readTextFile } from "./text-files.ts";

export interface Session {
  url: string;
  email: string;
  token: string;
  /** True if the session was started by single sign-on. */
  sso?: boolean;
}

/** Undefined if the file is missing or holds no session: the next login replaces it. */
export function readSession(file: string): Session | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(errorCode(error))) return undefined;
    throw new Problem(`the session in ${file} cannot be read: ${errorCode(error)}; ${ADVICE}`);
  }
  return parseSession(text);
}

/** Throws if writeSession would certainly fail; call it before asking for a password. */
export function checkSessionFile(file: string): void {
  storing(file, () => {
    makeFolder(dirname(file), 0o700);
    accessSync(dirname(file), constants.W_OK);
  });
}

export function writeSession(file: string, session: Session): void {
  const temporaryFile = `${file}.${process.pid}`;
  storing(file, () => {
    makeFolder(dirname(file), 0o700);
    writeFileSync(temporaryFile, `${JSON.stringify(session)}\n`, { mode: 0o600 });
    renameSync(temporaryFile, file);
  });
}

export function removeSession(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch (error) {
    if (errorCode(error) !== "ENOTDIR") throw new Problem(`the session in ${file} cannot be removed: ${errorCode(error)}`);
  }
}

const ADVICE = "set XDG_CONFIG_HOME to a writable folder";

function storing(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    throw new Problem(`the session cannot be stored in ${file}: ${errorCode(error)}; ${ADVICE}`);
  }
}

function parseSession(text: string): Session | undefined {
  try {
    const { url, email, token, sso } = JSON.parse(text) as Partial<Session>;
    return typeof url === "string" && URL.canParse(url) && typeof email === "string" && typeof token === "string"
      ? { url, email, token, ...(sso === true && { sso }) }
      : undefined;
  } catch {
    return undefined;
  }
}

function errorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}

export interface PasswordInput {
  stdin: Input;
  stderr: NodeJS.WritableStream;
}

/** Reads from `file`, otherwise the whole text of a pipe, otherwise prompts. A single line end at the end is dropped. */
export async function readPassword(prompt: string, { stdin, stderr }: PasswordInput, file?: string): Promise<string> {
  const password = file ? readTextFile(file) : stdin.isTTY ? await promptPassword(prompt, stdin, stderr) : await text(stdin);
  return requireText(password.replace(/\r?\n$/, ""));
}

/** Prompts for each, or reads the lines of a pipe in this order. */
export async function readPasswords(prompts: readonly string[], input: PasswordInput): Promise<string[]> {
  const lines = input.stdin.isTTY ? [] : (await text(input.stdin)).split(/\r?\n/);
  const passwords: string[] = [];
  for (const [at, prompt] of prompts.entries())
    passwords.push(input.stdin.isTTY ? await readPassword(prompt, input) : requireText(lines[at] ?? ""));
  return passwords;
}

function requireText(line: string): string {
  if (line === "") throw new Problem("the password is empty: enter it, pipe it in, or set ATHEROPS_PASSWORD_FILE to a file");
  return line;
}

async function promptPassword(prompt: string, stdin: Input, stderr: NodeJS.WritableStream): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: stdin, output: silent, terminal: true });
  stderr.write(prompt);
  try {
    return await terminal.question("");
  } catch (error) {
    if ((error as Error).name !== "AbortError") throw error;
    throw new Problem("no password entered");
  } finally {
    terminal.close();
    stderr.write("\n");
  }
}
