// Finds a third-party program among the places where it may be. Invariant: what is answered can be executed.
import { spawnSync } from "node:child_process";
import { isAbsolute } from "node:path";
import { isExecutable } from "../../common/files.ts";
import { StartError } from "../startup-error.ts";

/** The first candidate that can be executed. Throws one sentence that names the variable and the tool fetcher. */
export function findProgram(name: string, candidates: readonly string[]): string {
  for (const candidate of candidates) {
    const path = isAbsolute(candidate) || candidate.includes("/") ? candidate : onPath(candidate);
    if (path && isExecutable(path)) return path;
  }
  const variable = `${name.toUpperCase().replaceAll("-", "_")}_PATH`;
  throw new StartError(
    `${name} is not installed: none of ${candidates.join(", ")} can be executed; set ${variable} to the program, or run hack/fetch-tools.ts to bring it`,
  );
}

// The shell looks it up, because PATH belongs to the process and only settings.ts reads the environment.
function onPath(name: string): string | undefined {
  const found = spawnSync("/bin/sh", ["-c", 'command -v -- "$1"', "sh", name], { encoding: "utf8" });
  return found.status === 0 ? found.stdout.trim() : undefined;
}
