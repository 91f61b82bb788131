// Which files LOG_PATHS match now, and which of them the agent would not read: for `diagnose`, which changes nothing.
import { realpath } from "node:fs/promises";
import { LogTree } from "./log-tree.ts";
import { closeFile, type LogFileRules, openLogFile, type Refusal } from "./open-log-file.ts";
import { PathPatterns } from "./path-patterns.ts";

export interface LogFilesSurvey {
  /** Matching paths. */
  readonly count: number;
  readonly notRead: ReadonlyMap<Refusal, readonly string[]>;
}

export async function surveyLogFiles(patterns: readonly string[], { mayRead, mayEnter }: LogFileRules): Promise<LogFilesSurvey> {
  const notRead = new Map<Refusal, string[]>();
  let count = 0;
  const open = async (path: string, target: string): Promise<void> => {
    count += 1;
    const opened = await openLogFile(target, mayRead);
    if (typeof opened !== "string") await closeFile(opened.fd);
    else notRead.set(opened, [...(notRead.get(opened) ?? []), path]);
  };
  for await (const { files, links } of new LogTree(new PathPatterns(patterns), mayEnter).pass(new AbortController().signal)) {
    for (const path of files) await open(path, path);
    for (const path of links) await open(path, await realpath(path).catch(() => path));
  }
  return { count, notRead };
}
