// `atherops changes`: what changed in a range, compared with one before it, most important first.
import { type Command, Option } from "commander";
import type { ApiResponses } from "../client/api.ts";
import type { Console } from "./output.ts";
import { addTimeOptions, rowLimit, type TimeOptions, timeRange } from "./query-rows.ts";

interface ChangesOptions extends TimeOptions {
  compareWith?: string;
  service?: string;
  limit: string;
}

export function addChangesCommand(program: Command, console: Console): void {
  addTimeOptions(program.command("changes"))
    .description("what changed, compared with the time before: services, logs, versions, clusters, agents, alerts")
    .addOption(
      new Option("--compare-with <range>", "the range before, or the same time yesterday or last week").choices([
        "before",
        "yesterday",
        "last_week",
      ]),
    )
    .option("--service <name>", "only changes of this service")
    .addOption(new Option("--limit <rows>", "maximum number of changes, at most 100").default("20", "20"))
    .addHelpText(
      "after",
      `
Examples:
  atherops changes                                     the last hour, compared with the hour before
  atherops changes --since 30m --compare-with yesterday
  atherops changes --service checkout --json | jq -r '.[].link'`,
    )
    .action(async ({ compareWith, service, limit, ...time }: ChangesOptions) => {
      const query = { ...timeRange(time), compare_with: compareWith, service, limit: String(rowLimit(limit)) };
      const answer = await console.call<ApiResponses["GET /query/changes"]>("GET", "/query/changes", { query });
      const client = console.client();
      const changes = answer.changes.map((change) => ({ ...change, link: client.consoleLink(change.link) }));
      for (const { part, reason } of answer.missing) console.note(`${part} not compared: ${reason}`);
      if (console.json) console.print(changes, ["title"]);
      else if (changes.length === 0) console.note("nothing changed that is more than chance");
      else console.print(changes, ["severity", "since", "title", "link"]);
    });
}
