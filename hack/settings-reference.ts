// The reference pages of the settings, made from the table of each program.
import { BOTH, CLUSTER, HOST } from "../agent/settings-table.ts";
import { SETTINGS_TABLE } from "../backend/settings-table.ts";
import { formatDuration } from "../common/duration.ts";
import type { Kind, Setting, Table } from "../common/settings-table.ts";

export const AGENT_TABLE: Table = { ...BOTH, ...HOST, ...CLUSTER };
export const BACKEND_TABLE: Table = SETTINGS_TABLE;

/** One section per group. The column of chart values is left out where no setting of the group has one. */
export function settingsSections(table: Table): string {
  const rows = Object.values(table);
  return [...new Set(rows.map((row) => row.group))]
    .map((title) => {
      const inGroup = rows.filter((row) => row.group === title);
      const hasValues = inGroup.some((row) => row.value !== undefined);
      const head = ["setting", "type and range", "default", ...(hasValues ? ["chart value"] : []), "meaning"];
      const lines = inGroup.map((row) => [
        code(row.name) + (row.isSecret ? " (secret)" : ""),
        typeText(row),
        defaultText(row),
        ...(hasValues ? [valueText(row)] : []),
        row.description,
      ]);
      return `\n## ${title}\n\n${[head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.map(cell).join(" | ")} |`).join("\n")}\n`;
    })
    .join("");
}

function typeText({ kind, unit }: Setting): string {
  return [kind.type, rangeText(kind), unit].filter(Boolean).join(", ");
}

function rangeText({ type, range = {} }: Kind<unknown>): string {
  const bound = (value: number): string => (type === "duration" ? formatDuration(value) : String(value));
  const { min, above, max, values } = range;
  return [
    values?.map(code).join(", "),
    min === undefined || (type === "duration" && min === 0) ? undefined : `at least ${bound(min)}`,
    above === undefined ? undefined : `above ${bound(above)}`,
    max === undefined ? undefined : `at most ${bound(max)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

function defaultText({ isRequired, default: given = "" }: Setting): string {
  if (isRequired) return "required";
  if (typeof given === "string") return code(given);
  return Object.entries(given)
    .map(([profile, value]) => `${profile} agent: ${code(value)}`)
    .join("; ");
}

function valueText({ value = "", valueDefault }: Setting): string {
  return code(value) + (valueDefault === undefined ? "" : `, there ${code(valueDefault)}`);
}

const code = (text: string): string => (text === "" ? "" : `\`${text}\``);
const cell = (text: string): string => text.replaceAll("|", String.raw`\|`);
