// `atherops silences`: they mute matching alerts for a limited time. Invariant: a silence has a reason, and an end.
import type { Command } from "commander";
import { durationWithin } from "../../common/duration.ts";
import { WrongUsage } from "./cli-error.ts";
import { typedMatcher } from "./matcher-text.ts";
import { addRemoval, type Console } from "./output.ts";
import { matchersOf, silenceBody, SILENCES } from "./silence-kind.ts";
import type { Row } from "./table.ts";

const LONGEST_MS = 366 * 86_400_000;
const COLUMNS = ["state", "matchers", "startsAt", "endsAt", "createdBy", "comment", "id"];

interface SilenceOptions {
  for: string;
  start?: string;
  comment: string;
}

export function addSilenceCommands(program: Command, console: Console): void {
  const silences = program.command("silences").description("silences: mute matching alerts for a limited time");
  silences
    .command("list", { isDefault: true })
    .description("active and pending silences")
    .option("--all", "also silences that ended in the last five days")
    .action(async ({ all }: { all?: boolean }) => {
      const rows = await console.client().call<(Row & { status: { state: string } })[]>("GET", SILENCES);
      const wanted = rows.filter(({ status }) => all || status.state !== "expired");
      const shown = wanted.map((row) => ({ ...row, state: row.status.state, matchers: matchersOf(row).join(", ") }));
      console.print(console.json ? wanted : shown, COLUMNS);
    });
  silences
    .command("add <matchers...>")
    .description("mute the alerts that match all matchers")
    .requiredOption("--comment <text>", "why; others read it")
    .option("--for <duration>", "how long, such as 30m, 2h or 7d", "2h")
    .option("--start <time>", "RFC 3339; default now")
    .addHelpText(
      "after",
      `
Examples:
  atherops silences add alertname=HostMemoryLow instance=web-1 --for 4h --comment 'more memory comes today'
  atherops silences add 'instance=~"db-.*"' --start 2026-12-01T04:00:00Z --for 2h --comment 'the database moves'`,
    )
    .action(async (texts: string[], options: SilenceOptions) => {
      const matchers = texts.map((text) => typedMatcher(text, "matcher"));
      const times = timesOf(options);
      const made = await console
        .client()
        .call<Row>("POST", SILENCES, { body: silenceBody({ matchers, ...times, comment: options.comment }) });
      console.result(String(made["id"]), `silenced until ${String(made["endsAt"])}: ${matchers.join(", ")}`, made);
    });
  addRemoval(silences, console, "end a silence now; its firing alerts are sent", (id) => `${SILENCES}/${id}`);
}

function timesOf({ for: text, start }: SilenceOptions): { starts_at: string | null; ends_at: string } {
  const ms = durationWithin(text, { minMs: 1000, maxMs: LONGEST_MS });
  if (ms === undefined) throw new WrongUsage(`--for ${text}: write it as 30m, 2h or 7d, a year at most`);
  const startMs = start === undefined ? Date.now() : Date.parse(start);
  if (Number.isNaN(startMs)) throw new WrongUsage(`--start ${start}: write it as 2026-12-01T04:00:00Z`);
  return { starts_at: start === undefined ? null : new Date(startMs).toISOString(), ends_at: new Date(startMs + ms).toISOString() };
}
