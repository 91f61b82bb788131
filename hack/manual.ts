// Reads the comment at the beginning of a script, which the script prints for `--help`.
import { readFileSync } from "node:fs";

export function readManual(url: string): string {
  const [header = ""] = readFileSync(new URL(url), "utf8").split("\nimport ");
  return header.replaceAll(/^\/\/ ?/gm, "");
}
