// `atherops slos`: error budgets and burn rates of service level objectives, their definitions as OpenSLO, and how `atherops apply` stores them.
// Invariant: an objective is identified by its name; the backend validates it.
import type { Command } from "commander";
import { formatDuration } from "../../common/duration.ts";
import type { ApiResponses } from "../client/api.ts";
import type { Fields } from "./alerting-fields.ts";
import { type Existing, type Kind, type Resource, storedAt } from "./alerting-file.ts";
import type { Client } from "./api-client.ts";
import { addRemovalByName, findExisting } from "./named-resources.ts";
import { formatOpenSlo, isOpenSlo, readOpenSlos } from "./openslo.ts";
import type { Console } from "./output.ts";
import type { Row } from "./text-table.ts";

const SLOS = "/alerting/slos";
const WINDOWS = ["7d", "28d", "30d", "90d", "month"];

export const sloKind: Kind = {
  section: "slos",
  noun: "slo",
  read: readSlo,
  nameOf: ({ name }) => String(name),
  list: listSlos,
  ...storedAt(SLOS),
  documents: { accepts: isOpenSlo, read: readOpenSlos },
};

async function listSlos(client: Client): Promise<Existing[]> {
  const rows = await client.call<Row[]>("GET", SLOS);
  return rows.map(({ id, created_at: _createdAt, ...resource }) => ({ id: String(id), name: String(resource["name"]), resource }));
}

function readSlo(fields: Fields): Resource {
  const [objective, indicator] = [fields.any("objective"), fields.any("indicator")];
  if (typeof objective !== "number") throw fields.problem("objective", "must be a number of percent, such as 99.9");
  return {
    name: fields.text("name"),
    description: fields.text("description", ""),
    objective,
    window: fields.oneOf("window", WINDOWS, "30d"),
    indicator,
    no_traffic: fields.oneOf("no_traffic", ["ignore", "bad"], "ignore"),
    alerts: fields.flag("alerts", true),
    labels: fields.texts("labels"),
  };
}

const HELP = `
Examples:
  atherops slos                                   error budgets and burn rates
  atherops slos show 'checkout availability'      with its history
  atherops apply -f slos.yaml                     create or change objectives; \`atherops apply --help\` shows one
  atherops apply -f openslo.yaml                  the same from OpenSLO v1 documents
  atherops slos export > openslo.yaml             OpenSLO v1

The burn rate is how many times faster than the objective allows the error budget is used. The alerts of an objective are listed by
\`atherops rules\`.`;

export function addSloCommands(program: Command, console: Console): void {
  const slos = program.command("slos").description("service level objectives: error budgets and burn rates").addHelpText("after", HELP);
  slos
    .command("list", { isDefault: true })
    .description("all objectives with their error budgets and burn rates")
    .action(async () => {
      const rows = await console.call<Listed[]>("GET", "/query/slos");
      for (const { name, error } of rows) if (error !== null) console.note(`${name}: ${error}`);
      if (console.json) console.print(rows, ["name"]);
      else console.print(rows.map(shownSlo), ["name", "objective", "window", "sli", "budget_left", "burn_rate_1h", "exhausted_in"]);
    });
  slos
    .command("show <slo>")
    .description("the error budget, burn rates and history of an objective (by name or id)")
    .action(async (slo: string) => await show(console, slo));
  slos
    .command("export")
    .argument("[slos...]", "names or ids; default all")
    .description("print objectives as OpenSLO v1 documents")
    .action(async (names: string[]) => {
      const client = console.client();
      const chosen =
        names.length === 0 ? await listSlos(client) : await Promise.all(names.map((name) => findExisting(sloKind, client, name)));
      console.world.stdout.write(chosen.map(({ resource }) => formatOpenSlo(resource)).join("---\n"));
    });
  addRemovalByName(slos, console, sloKind, "remove an objective (by name or id) and its rules");
}

async function show(console: Console, nameOrId: string): Promise<void> {
  const client = console.client();
  const { id } = await findExisting(sloKind, client, nameOrId);
  const report = await client.call<ApiResponses["GET /query/slos/{id}"]>("GET", `/query/slos/${id}`);
  if (console.json) return console.lines([report]);
  const { history, burn_rates: rates, range, good, total, allowed_bad: allowed, error } = report;
  if (error !== null) console.note(error);
  const lines = [
    `${shownSlo({ ...report, burn_rate: rates["1h"] }).budget_left} of the error budget is left, ${report.objective} % in ${report.window}`,
    `  ${range.start} to ${range.end}: ${total - good} of ${total} events were bad, ${short(allowed)} are allowed`,
    `  burn rate: ${Object.entries(rates)
      .map(([window, rate]) => `${short(rate)} in ${window}`)
      .join(", ")}; budget used up in: ${durationOf(report.exhausted_in_s)}`,
    "",
  ];
  console.world.stdout.write(lines.join("\n"));
  const points = history.map((point) => ({
    ...point,
    bad: point.total - point.good,
    sli: percent(point.sli),
    budget_left: percent(point.budget_remaining),
  }));
  console.print(points, ["start", "total", "bad", "sli", "budget_left"]);
}

type Listed = ApiResponses["GET /query/slos"][number];
type Figures = Pick<Listed, "objective" | "sli" | "budget_remaining" | "exhausted_in_s"> & { burn_rate: number | null | undefined };

function shownSlo(row: Figures) {
  return {
    ...row,
    objective: `${row.objective} %`,
    sli: percent(row.sli),
    budget_left: percent(row.budget_remaining),
    burn_rate_1h: short(row.burn_rate),
    exhausted_in: durationOf(row.exhausted_in_s),
  };
}

function percent(share: number | null): string {
  return share === null ? "-" : `${Number((share * 100).toPrecision(5))} %`;
}

function short(value: number | null | undefined): string {
  return value == null ? "-" : String(Number(value.toPrecision(3)));
}

/** Two units are more precise than the estimate. */
function durationOf(seconds: number | null): string {
  if (seconds === null) return "never";
  const unitS = seconds >= 86_400 ? 3600 : 60;
  return formatDuration(Math.floor(seconds / unitS) * unitS * 1000);
}
