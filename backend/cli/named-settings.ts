// Inhibition rules and time intervals in the files of `atherops apply`. Invariant: matchers are text in files, in the one printed form.
import { type Kind, type Resource, storedAt } from "./alerting-file.ts";
import { type Fields, readMatcher } from "./alerting-fields.ts";
import type { Client } from "./api-client.ts";
import { formatMatcher, type Matcher } from "../client/matcher.ts";
import type { Row } from "./text-table.ts";

const SIDES = ["source_matchers", "target_matchers"];

export const timeIntervalKind: Kind = {
  ...namedKind("time_intervals", "time interval", "/alerting/time-intervals", (row) => row),
  read: (fields) => ({ name: fields.text("name"), time_intervals: fields.any("time_intervals") }),
};

export const inhibitRuleKind: Kind = {
  ...namedKind("inhibit_rules", "inhibition rule", "/alerting/inhibit-rules", (row) =>
    mapSides(row, (matchers) => (matchers as Matcher[]).map(formatMatcher)),
  ),
  read: (fields) => ({
    name: fields.text("name"),
    ...Object.fromEntries(SIDES.map((side) => [side, readMatchers(fields, side).map(formatMatcher)])),
    equal: fields.list("equal"),
  }),
  ...storedAt("/alerting/inhibit-rules", (_client, resource) =>
    mapSides(resource, (matchers) => (matchers as string[]).map((text) => readMatcher(text, "matchers"))),
  ),
};

function namedKind(section: string, noun: string, path: string, toResource: (row: Row) => Row): Omit<Kind, "read"> {
  return {
    section,
    noun,
    nameOf: ({ name }) => String(name),
    list: async (client: Client) => {
      const rows = await client.call<Row[]>("GET", path);
      return rows.map(({ id, created_at: _created, ...row }) => ({ id: String(id), name: String(row["name"]), resource: toResource(row) }));
    },
    ...storedAt(path),
  };
}

function readMatchers(fields: Fields, side: string): Matcher[] {
  return fields.list(side).map((text) => readMatcher(text, `${fields.where}.${side}`));
}

function mapSides(resource: Resource, map: (matchers: unknown) => unknown): Row {
  return { ...resource, ...Object.fromEntries(SIDES.map((side) => [side, map(resource[side])])) };
}
