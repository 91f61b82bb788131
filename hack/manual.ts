// Reads the comment at the beginning of a script, which is its `--help`.
import { readFileSync } from "node:fs";

export function readManual(url: string): string {
  const [header = ""] = readFileSync(new URL(url), "utf8").split("\nimport ");
  return header.replaceAll(/^\/\/ ?/gm, "");
}
