// `atherops usage`, `limits`, `retention` and `audit`: show what an organisation sends, its limits, how long its data is kept, and who
// changed what.
import type { ApiResponses } from "../client/api.ts";
import type { Command } from "commander";
import { Problem, WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";
import { rowLimit } from "./query-rows.ts";
import { parseJson } from "./text-files.ts";
import { bytesText } from "../client/text.ts";
import type { Row } from "./text-table.ts";

type OrgUsage = ApiResponses["GET /api/orgs/usage"][number];
type Org = ApiResponses["GET /api/orgs"][number];

export function addOrganisationCommands(program: Command, console: Console): void {
  program
    .command("usage")
    .description("stored telemetry of your organisation, by day and signal")
    .option("--days <number>", "number of days, including today", "30")
    .option("--all", "of all organisations, those with the most data first, with shares of their limits; for operators")
    .action(async ({ days, all }: { days: string; all?: boolean }) => {
      if (all) return printUsageOfAll(console, days);
      const rows = await console.call<Row[]>("GET", "/api/usage", { query: { days } });
      const columns = ["day", "signal", "bytes", "records", "active_series"];
      console.print(rows, columns, (row) => ({ ...row, bytes: bytesText(Number(row["bytes"])) }));
    });
  addSettings(program, console, {
    name: "limits",
    description: "limits of your organisation's telemetry; 0 means unlimited",
    fields: ["bytes_per_second", "records_per_second", "active_series"],
    help: "a number; 0 means unlimited; `default` restores the backend's setting; unchanged if omitted",
    zero: "unlimited",
  });
  addSettings(program, console, {
    name: "retention",
    description: "how long your organisation's telemetry is stored",
    fields: ["logs_days", "traces_days", "metrics_days"],
    help: "days; `default` restores the backend's setting; unchanged if omitted",
    hasLogRules: true,
  });
  addAudit(program, console);
}

const percent = (share: number | null): string => (share === null ? "–" : `${Number((share * 100).toPrecision(2))} %`);

async function printUsageOfAll(console: Console, days: string): Promise<void> {
  const rows = await console.call<OrgUsage[]>("GET", "/api/orgs/usage", { query: { days } });
  const shares = ["share_of_all", "of_bytes_limit", "of_records_limit", "of_series_limit"];
  console.print(rows, ["organisation", "signal", "bytes", "records", ...shares], (row) => ({
    ...row,
    organisation: row.name,
    bytes: bytesText(row.bytes),
    share_of_all: percent(row.share_of_all),
    of_bytes_limit: percent(row.bytes_share),
    of_records_limit: percent(row.records_share),
    of_series_limit: percent(row.series_share),
  }));
}

interface Settings {
  /** The name of the command, and the last part of the API's path. */
  readonly name: "limits" | "retention";
  readonly description: string;
  /** Numbers of the API, each with an option. */
  readonly fields: readonly string[];
  readonly help: string;
  /** Printed in a table instead of 0. */
  readonly zero?: string;
  readonly hasLogRules?: boolean;
}

function addSettings(program: Command, console: Console, { name, description, fields, help, zero, hasLogRules }: Settings): void {
  const print = (values: Row): void => {
    console.print([values], hasLogRules ? [...fields, "log_rules"] : fields, (row) =>
      Object.fromEntries(Object.entries(row).map(([field, value]) => [field, (value === 0 && zero) || value])),
    );
  };
  const group = program.command(name).description(description);
  group
    .command("show", { isDefault: true })
    .description(`the ${name} of your organisation; operators can specify any organisation (by name or id)`)
    .argument("[organisation]", "default: your own")
    .action(async (organisation: string | undefined) => {
      print(await console.call("GET", await settingsPath(console, name, organisation)));
    });
  const set = group.command("set <organisation>").description(`set the ${name} of an organisation (by name or id), as operator`);
  for (const field of fields) set.option(`${optionOf(field)} <number>`, help);
  if (hasLogRules)
    set.option("--log-rules <json>", 'shorter times for some log records, such as \'[{"level": "debug", "days": 3}]\'; [] for none');
  set.action(async (organisation: string, { logRules, ...numbers }: Record<string, string | undefined>) => {
    const changes = {
      ...Object.fromEntries(set.options.flatMap((option) => parseNumber(fields, option.long ?? "", numbers[option.attributeName()]))),
      ...(logRules !== undefined && { log_rules: parseJson("--log-rules", logRules, WrongUsage) }),
    };
    if (Object.keys(changes).length === 0) throw new WrongUsage("nothing to set: specify at least one option (see --help)");
    const path = await settingsPath(console, name, organisation);
    // The route replaces all values, so the current ones are sent too.
    const body = { ...(await console.call<Row>("GET", path)), ...changes };
    print(await console.call("PUT", path, { body }));
  });
}

const optionOf = (field: string): string => `--${field.replaceAll("_", "-")}`;

/** The field of an option and its number, null for `default`; nothing if the option is missing. */
function parseNumber(fields: readonly string[], option: string, text: string | undefined): [string, number | null][] {
  const field = fields.find((name) => optionOf(name) === option);
  if (field === undefined || text === undefined) return [];
  if (text === "default") return [[field, null]];
  if (!/^\d{1,15}$/.test(text)) throw new WrongUsage(`${option} ${text}: must be a whole number, or \`default\``);
  return [[field, Number(text)]];
}

function addAudit(program: Command, console: Console): void {
  program
    .command("audit")
    .description("audit log of changes and logins, newest first; for operators, of all organisations")
    .option("--action <action>", "only entries with this action, such as login.failed or key.revoke")
    .option("--organisation <organisation>", "only of this organisation (name or id), as operator")
    .option("--limit <number>", "maximum number of entries", "100")
    .action(async ({ action, organisation, limit }: { action?: string; organisation?: string; limit: string }) => {
      const org_id = organisation === undefined ? undefined : (await findOrganisation(console, organisation)).org_id;
      const rows = await console.client().rows("/api/audit", { action, org_id }, rowLimit(limit));
      console.print(rows, ["at", "action", "actor", "address", "subject"]);
    });
}

/** The route for an organisation (by name or id), or for your own. */
async function settingsPath(console: Console, name: Settings["name"], organisation: string | undefined): Promise<string> {
  return organisation === undefined ? `/api/${name}` : `/api/orgs/${(await findOrganisation(console, organisation)).org_id}/${name}`;
}

/** The organisation with this name or id; for operators. */
export async function findOrganisation(console: Console, organisation: string): Promise<Org> {
  const all = await console.client().rows<Org>("/api/orgs");
  const org = all.find(({ org_id, name }) => org_id === organisation || name === organisation);
  if (!org) throw new Problem(`organisation ${organisation} not found: \`atherops orgs\` lists all`);
  return org;
}
