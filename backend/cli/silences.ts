// `atherops silences`, and silences in the files of `atherops apply`: they mute matching alerts for a limited time. Invariants: a silence
// has a reason and an end; in files, it is identified by its matchers and comment; an ended silence is never created again from an old
// file.
import type { Command } from "commander";
import { durationWithin } from "../../common/duration.ts";
import { WrongUsage } from "./cli-error.ts";
import { formatMatcher, fromSilence, type SilenceMatcher, toSilence } from "../client/matcher.ts";
import { type Fields, readMatcher, typedMatcher } from "./alerting-fields.ts";
import { addRemoval, type Console } from "./output.ts";
import type { Row } from "./text-table.ts";
import { type Existing, type Kind, type Resource, storedAt } from "./alerting-file.ts";
import type { Client } from "./api-client.ts";

const SILENCES = "/alerting/silences";

export const silenceKind: Kind = {
  section: "silences",
  noun: "silence",
  read: readSilence,
  isExpired: ({ ends_at: end }) => Date.parse(String(end)) <= Date.now(),
  nameOf: ({ matchers, comment }) => `${(matchers as string[]).join(", ")} (${String(comment)})`,
  list: listSilences,
  ...storedAt(SILENCES, (_client, resource) => toBody(resource)),
  replace: async (client, id, resource) => await client.call("POST", SILENCES, { body: { ...toBody(resource), id } }),
  isSame: (field, existing, desired) =>
    field.endsWith("s_at") && (typeof desired !== "string" || Date.parse(String(existing)) === Date.parse(desired)),
};

/** Silences that have not ended. */
async function listSilences(client: Client): Promise<Existing[]> {
  const rows = await client.call<(Row & { status: { state: string } })[]>("GET", SILENCES);
  return rows
    .filter(({ status }) => status.state !== "expired")
    .map((row) => {
      const matchers = matcherTexts(row);
      const resource = { matchers, starts_at: row["startsAt"], ends_at: row["endsAt"], comment: row["comment"] };
      return { id: String(row["id"]), name: silenceKind.nameOf(resource, 0), resource };
    });
}

function matcherTexts(row: Row): string[] {
  return (row["matchers"] as SilenceMatcher[]).map((matcher) => formatMatcher(fromSilence(matcher))).sort();
}

function toBody({ matchers, starts_at: startsAt, ends_at: endsAt, comment }: Resource): object {
  const read = (matchers as string[]).map((text) => toSilence(readMatcher(text, "matchers")));
  return { matchers: read, ...(startsAt !== null && { startsAt }), endsAt, comment };
}

function readSilence(fields: Fields): Resource {
  return {
    matchers: fields
      .list("matchers")
      .map((text) => formatMatcher(readMatcher(text, `${fields.where}.matchers`)))
      .sort(),
    starts_at: fields.has("starts_at") ? timeOf(fields, "starts_at") : null,
    ends_at: timeOf(fields, "ends_at"),
    comment: fields.text("comment"),
  };
}

function timeOf(fields: Fields, name: string): string {
  const text = fields.text(name);
  if (!/^\d{4}-\d\d-\d\dT/i.test(text) || Number.isNaN(Date.parse(text)))
    throw fields.problem(name, "must be a time such as 2026-11-22T09:00:00Z");
  return text;
}

const MAX_MS = 366 * 86_400_000;
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
      const rows = await console.call<(Row & { status: { state: string } })[]>("GET", SILENCES);
      const wanted = rows.filter(({ status }) => all || status.state !== "expired");
      console.print(wanted, COLUMNS, (row) => ({ ...row, state: row.status.state, matchers: matcherTexts(row).join(", ") }));
    });
  silences
    .command("add <matchers...>")
    .description("mute the alerts that match all matchers")
    .requiredOption("--comment <text>", "reason for the silence, shown to other users")
    .option("--for <duration>", "how long, such as 30m, 2h or 7d", "2h")
    .option("--start <time>", "RFC 3339; default now")
    .addHelpText(
      "after",
      `
Examples:
  atherops silences add alertname=HostMemoryLow instance=web-1 --for 4h --comment 'more memory will be installed today'
  atherops silences add 'instance=~"db-.*"' --start 2026-12-01T04:00:00Z --for 2h --comment 'the database moves'`,
    )
    .action(async (texts: string[], options: SilenceOptions) => {
      const matchers = texts.map((text) => typedMatcher(text, "matcher"));
      const times = timesOf(options);
      const created = await console.call<Row>("POST", SILENCES, { body: toBody({ matchers, ...times, comment: options.comment }) });
      console.result(String(created["id"]), `silenced until ${String(created["endsAt"])}: ${matchers.join(", ")}`, created);
    });
  addRemoval(silences, console, "end a silence now; its firing alerts are sent", (id) => `${SILENCES}/${id}`);
}

function timesOf({ for: text, start }: SilenceOptions): { starts_at: string | null; ends_at: string } {
  const ms = durationWithin(text, { minMs: 1000, maxMs: MAX_MS });
  if (ms === undefined) throw new WrongUsage(`--for ${text}: write it as 30m, 2h or 7d, at most 366d`);
  const startMs = start === undefined ? Date.now() : Date.parse(start);
  if (Number.isNaN(startMs)) throw new WrongUsage(`--start ${start}: write it as 2026-12-01T04:00:00Z`);
  return { starts_at: start === undefined ? null : new Date(startMs).toISOString(), ends_at: new Date(startMs + ms).toISOString() };
}
