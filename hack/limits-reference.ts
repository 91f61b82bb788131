// The reference page of the limits, made from the file of limits of each folder: name, value and the sentence above it.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatDuration } from "../common/duration.ts";

const ROOT = dirname(import.meta.dirname);
/** Other files of this name hold types and functions. */
export const LIMIT_FILES = globSync(["agent/limits.ts", "{backend,common}/*/limits.ts"], { cwd: ROOT }).toSorted();

export interface Limit {
  readonly name: string;
  readonly value: number | bigint;
  readonly reason: string;
}

export async function readLimits(file: string): Promise<Limit[]> {
  const values = (await import(join(ROOT, file))) as Readonly<Record<string, number | bigint>>;
  const text = readFileSync(join(ROOT, file), "utf8");
  const reasons = new Map(
    [...text.matchAll(/\/\*\*\s+([^*]+?)\s*\*\/\nexport const (\w+)/g)].map(([, reason = "", name = ""]) => [name, reason]),
  );
  return Object.entries(values)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value, reason: reasons.get(name) ?? "" }));
}

export async function limitsPage(): Promise<string> {
  const sections = await Promise.all(
    LIMIT_FILES.map(async (file) => {
      const rows = (await readLimits(file)).map(({ name, value, reason }) => `| \`${name}\` | ${valueText(name, value)} | ${reason} |`);
      return `\n## ${dirname(file)}\n\n| limit | value | what it bounds |\n| --- | --- | --- |\n${rows.join("\n")}\n`;
    }),
  );
  return `# Limits
<!-- Generated from agent/limits.ts and {backend,common}/*/limits.ts by \`npm run reference\`; change it there. -->

Every input has a limit, and most are constants. Limits that operators set are [settings of the backend](backend-settings.md) and [of the agent](agent-settings.md); limits that clients meet are in [the contract](../contract.md). Processes that evaluate LogQL have limits of their own in \`backend/query/sandbox/limits.ts\`.
${sections.join("")}`;
}

function valueText(name: string, value: number | bigint): string {
  if (typeof value === "number" && name.includes("_BYTES")) return bytesText(value);
  if (typeof value === "number" && name.includes("_MS")) return formatDuration(value);
  if (typeof value === "number" && name.endsWith("_S")) return formatDuration(value * 1000);
  return value.toLocaleString("en-US");
}

function bytesText(value: number): string {
  const [unit = "bytes", size = 1] =
    (
      [
        ["GiB", 2 ** 30],
        ["MiB", 2 ** 20],
        ["MB", 1_000_000],
        ["KiB", 2 ** 10],
      ] as const
    ).find(([, bytes]) => value % bytes === 0) ?? [];
  return `${(value / size).toLocaleString("en-US")} ${unit}`;
}
