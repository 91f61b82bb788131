// Silences as `atherops apply` and `atherops silences` have them. Invariant: matchers and comment make it the same silence; one that has ended
// is never made again from an old file.
import type { Fields } from "./alerting-fields.ts";
import type { Existing, Kind, Thing } from "./alerting-plan.ts";
import type { Client } from "./client.ts";
import { fromAlertmanager, matcherText, readMatcher, toAlertmanager } from "./matcher-text.ts";
import type { Row } from "./table.ts";

export const SILENCES = "/alerting/silences";

export const silenceKind: Kind = {
  section: "silences",
  noun: "silence",
  read: readSilence,
  isOver: ({ ends_at: end }) => Date.parse(String(end)) <= Date.now(),
  nameOf: ({ matchers, comment }) => `${(matchers as string[]).join(", ")} (${String(comment)})`,
  list: existingSilences,
  create: async (client, thing) => void (await client.call("POST", SILENCES, { body: silenceBody(thing) })),
  replace: async (client, id, thing) => void (await client.call("POST", SILENCES, { body: { ...silenceBody(thing), id } })),
  remove: async (client, id) => void (await client.call("DELETE", `${SILENCES}/${encodeURIComponent(id)}`)),
  same: (field, one, other) => field.endsWith("s_at") && (typeof other !== "string" || Date.parse(String(one)) === Date.parse(other)),
};

/** Those that have not ended. */
export async function existingSilences(client: Client): Promise<Existing[]> {
  const rows = await client.call<(Row & { status: { state: string } })[]>("GET", SILENCES);
  return rows
    .filter(({ status }) => status.state !== "expired")
    .map((row) => {
      const matchers = matchersOf(row);
      const thing = { matchers, starts_at: row["startsAt"], ends_at: row["endsAt"], comment: row["comment"] };
      return { id: String(row["id"]), name: silenceKind.nameOf(thing, 0), thing };
    });
}

export function matchersOf(row: Row): string[] {
  return (row["matchers"] as Record<string, unknown>[]).map((one) => matcherText(fromAlertmanager(one))).sort();
}

export function silenceBody({ matchers, starts_at: startsAt, ends_at: endsAt, comment }: Thing): object {
  const read = (matchers as string[]).map((text) => toAlertmanager(readMatcher(text, "matchers")));
  return { matchers: read, ...(startsAt !== null && { startsAt }), endsAt, comment };
}

function readSilence(fields: Fields): Thing {
  return {
    matchers: fields
      .list("matchers")
      .map((text) => matcherText(readMatcher(text, `${fields.where}.matchers`)))
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
