// Where the admin client keeps its session between two commands. Invariant: the file is readable by its owner only, and replaced as a
// whole; a place that cannot be used is a Problem that names it.
import { accessSync, constants, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { makeFolder } from "../../common/files.ts";
import { Problem } from "./cli-error.ts";

export interface Session {
  url: string;
  email: string;
  token: string;
  /** It began by single sign-on. */
  sso?: boolean;
}

/** Undefined where there is none, or where what is there is none: the next login replaces it. */
export function readSession(file: string): Session | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error))) return undefined;
    throw new Problem(`the session in ${file} cannot be read: ${codeOf(error)}; ${ELSEWHERE}`);
  }
  return sessionOf(text);
}

/** Throws where writeSession surely would: asked before a password is. */
export function checkSessionPlace(file: string): void {
  keeping(file, () => {
    makeFolder(dirname(file), 0o700);
    accessSync(dirname(file), constants.W_OK);
  });
}

export function writeSession(file: string, session: Session): void {
  const draft = `${file}.${process.pid}`;
  keeping(file, () => {
    makeFolder(dirname(file), 0o700);
    writeFileSync(draft, `${JSON.stringify(session)}\n`, { mode: 0o600 });
    renameSync(draft, file);
  });
}

export function removeSession(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch (error) {
    if (codeOf(error) !== "ENOTDIR") throw new Problem(`the session in ${file} cannot be removed: ${codeOf(error)}`);
  }
}

const ELSEWHERE = "set XDG_CONFIG_HOME to a writable folder";

function keeping(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    throw new Problem(`the session cannot be stored in ${file}: ${codeOf(error)}; ${ELSEWHERE}`);
  }
}

function sessionOf(text: string): Session | undefined {
  try {
    const { url, email, token, sso } = JSON.parse(text) as Partial<Session>;
    return typeof url === "string" && URL.canParse(url) && typeof email === "string" && typeof token === "string"
      ? { url, email, token, ...(sso === true && { sso }) }
      : undefined;
  } catch {
    return undefined;
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}
