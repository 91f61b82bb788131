// `atherops usage`, `limits`, `retention` and `audit`: show what an organisation sends, its limits, how long its data is kept, and who
// changed what.
import type { ApiResponses } from "../client/api.ts";
import type { Command } from "commander";
import { Problem, WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";
import { rowLimit } from "./query-rows.ts";
import { bytesText, type Row } from "./table.ts";

const LIMITS = ["bytes_per_second", "records_per_second", "active_series"];
const LIMIT = "a number; 0 is unlimited; `default` is that of the backend's settings; left out stays as it is";

type Org = ApiResponses["GET /api/orgs"][number];

export function addOrganisationCommands(program: Command, console: Console): void {
  program
    .command("usage")
    .description("stored telemetry of your organisation, by day and signal")
    .option("--days <number>", "number of days, including today", "30")
    .action(async ({ days }: { days: string }) => {
      const rows = await console.client().call<Row[]>("GET", "/api/usage", { query: { days } });
      const shown = console.json ? rows : rows.map((row) => ({ ...row, bytes: bytesText(Number(row["bytes"])) }));
      console.print(shown, ["day", "signal", "bytes", "records", "active_series"]);
    });
  addLimits(program, console);
  addRetention(program, console);
  addAudit(program, console);
}

function addLimits(program: Command, console: Console): void {
  const limits = program.command("limits").description("limits of your organisation's telemetry; 0 is unlimited");
  limits
    .command("show", { isDefault: true })
    .description("the limits of your organisation; operators can name any (by name or id)")
    .argument("[organisation]", "default: your own")
    .action(async (organisation: string | undefined) => {
      printLimits(console, await console.client().call("GET", await pathOf(console, "limits", organisation)));
    });
  limits
    .command("set <organisation>")
    .description("set limits of an organisation (by name or id), as operator")
    .option("--bytes-per-second <number>", LIMIT)
    .option("--records-per-second <number>", LIMIT)
    .option("--active-series <number>", LIMIT)
    .action(async (organisation: string, given: { bytesPerSecond?: string; recordsPerSecond?: string; activeSeries?: string }) => {
      const changed = {
        ...limitOf("bytes_per_second", given.bytesPerSecond),
        ...limitOf("records_per_second", given.recordsPerSecond),
        ...limitOf("active_series", given.activeSeries),
      };
      if (Object.keys(changed).length === 0) throw new WrongUsage("nothing to set: give one of the limits (add --help for the options)");
      const path = await pathOf(console, "limits", organisation);
      // The route replaces all values, so the current ones are sent too.
      const body = { ...(await console.client().call<Record<string, number>>("GET", path)), ...changed };
      printLimits(console, await console.client().call("PUT", path, { body }));
    });
}

const KEPT = ["logs_days", "traces_days", "metrics_days"];
const KEPT_DAYS = "days; `default` is the setting of the backend; left out stays as it is";

function addRetention(program: Command, console: Console): void {
  const retention = program.command("retention").description("how long your organisation's telemetry is kept");
  retention
    .command("show", { isDefault: true })
    .description("the retention of your organisation; operators can name any (by name or id)")
    .argument("[organisation]", "default: your own")
    .action(async (organisation: string | undefined) => {
      const path = await pathOf(console, "retention", organisation);
      console.print([await console.client().call<Row>("GET", path)], [...KEPT, "log_rules"]);
    });
  retention
    .command("set <organisation>")
    .description("set how long an organisation's telemetry (by name or id) is kept, as operator")
    .option("--logs-days <number>", KEPT_DAYS)
    .option("--traces-days <number>", KEPT_DAYS)
    .option("--metrics-days <number>", KEPT_DAYS)
    .option("--log-rules <json>", 'shorter times for some log records, such as \'[{"level": "debug", "days": 3}]\'; [] for none')
    .action(async (organisation: string, given: Record<string, string | undefined>) => {
      const changed: Record<string, unknown> = {
        ...limitOf("logs_days", given["logsDays"]),
        ...limitOf("traces_days", given["tracesDays"]),
        ...limitOf("metrics_days", given["metricsDays"]),
        ...(given["logRules"] !== undefined && { log_rules: rulesOf(given["logRules"]) }),
      };
      if (Object.keys(changed).length === 0) throw new WrongUsage("nothing to set: give one of the times (add --help for the options)");
      const path = await pathOf(console, "retention", organisation);
      // The route replaces all values, so the current ones are sent too.
      const body = { ...(await console.client().call<Row>("GET", path)), ...changed };
      console.print([await console.client().call<Row>("PUT", path, { body })], [...KEPT, "log_rules"]);
    });
}

function rulesOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WrongUsage(`--log-rules is not JSON: ${(cause as Error).message}`);
  }
}

/** In tables, 0 is printed as its meaning. */
function printLimits(console: Console, limits: Row): void {
  const shown = Object.fromEntries(LIMITS.map((name) => [name, limits[name] === 0 ? "unlimited" : limits[name]]));
  console.print([console.json ? limits : shown], LIMITS);
}

function addAudit(program: Command, console: Console): void {
  program
    .command("audit")
    .description("audit log of changes, newest first; for operators, of all organisations")
    .option("--action <action>", "only entries with this action, such as login.failed or key.revoke")
    .option("--organisation <organisation>", "only of this organisation (name or id), as operator")
    .option("--limit <number>", "maximum number of entries", "100")
    .action(async ({ action, organisation, limit }: { action?: string; organisation?: string; limit: string }) => {
      const most = rowLimit(limit);
      const org_id = organisation === undefined ? undefined : (await orgOf(console, organisation)).org_id;
      const rows: Record<string, unknown>[] = [];
      const query = { ...(action !== undefined && { action }), ...(org_id !== undefined && { org_id }) };
      for (
        let next: string | undefined = `/api/audit?${new URLSearchParams(query).toString()}`;
        next !== undefined && rows.length < most;
      ) {
        const page: { rows: Record<string, unknown>[]; next: string | undefined } = await console.client().page(next);
        rows.push(...page.rows);
        next = page.next;
      }
      console.print(rows.slice(0, most), ["at", "action", "actor", "address", "subject"]);
    });
}

/** The route for an organisation (by name or id), or for your own. */
async function pathOf(console: Console, what: "limits" | "retention", organisation: string | undefined): Promise<string> {
  return organisation === undefined ? `/api/${what}` : `/api/orgs/${(await orgOf(console, organisation)).org_id}/${what}`;
}

/** The organisation with this name or id; for operators. */
export async function orgOf(console: Console, organisation: string): Promise<Org> {
  const all = await console.client().all<Org>("/api/orgs");
  const org = all.find(({ org_id, name }) => org_id === organisation || name === organisation);
  if (!org) throw new Problem(`there is no organisation ${organisation}: \`atherops orgs\` lists them`);
  return org;
}

/** In the form that the route accepts, null for the default; empty if the option is missing. */
function limitOf(name: string, text: string | undefined): Record<string, number | null> {
  if (text === undefined) return {};
  if (text === "default") return { [name]: null };
  if (!/^\d{1,15}$/.test(text)) throw new WrongUsage(`--${name.replaceAll("_", "-")} ${text}: must be a whole number, or \`default\``);
  return { [name]: Number(text) };
}
