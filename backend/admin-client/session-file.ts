// Where the admin client keeps its session between two commands. Invariant: the file is readable by its owner only, and replaced as a
// whole. Used by client.ts and by login and logout.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export interface Session {
  url: string;
  email: string;
  token: string;
}

export function readSession(file: string): Session | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Session;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function writeSession(file: string, session: Session): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(session)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

export function removeSession(file: string): void {
  rmSync(file, { force: true });
}
