// Routes as `atherops apply` and `atherops routes` have them. Invariant: in a file channels are named and matchers are text; the section is the
// whole list in its order, and the default route, where it is listed, is the last.
import { durationMs } from "../../common/duration.ts";
import type { Fields } from "./alerting-fields.ts";
import type { Existing, Kind, Thing } from "./alerting-plan.ts";
import { existingChannels } from "./channel-kind.ts";
import type { Client } from "./client.ts";
import { Problem } from "./cli-error.ts";
import { matcherText, readMatcher, type RouteMatcher } from "./matcher-text.ts";
import type { Row } from "./table.ts";

export const ROUTES = "/alerting/routes";
const DEFAULT = "default";
const DURATIONS = ["group_wait", "group_interval", "repeat_interval"];

export const routeKind: Kind = {
  section: "routes",
  noun: "route",
  whole: true,
  stays: (name) => name === DEFAULT,
  read: readRoute,
  nameOf: (thing, at) => (thing["default"] === true ? DEFAULT : String(at + 1)),
  list: existingRoutes,
  create: async (client, thing) => {
    if (thing["default"] === true) throw new Problem("the default route always exists and cannot be created");
    await client.call("POST", ROUTES, { body: await bodyOf(client, thing) });
    return undefined;
  },
  replace: async (client, id, thing) => void (await client.call("PUT", routePath(id), { body: await bodyOf(client, thing) })),
  remove: async (client, id) => void (await client.call("DELETE", routePath(id))),
  same: (field, one, other) => DURATIONS.includes(field) && isSameDuration(String(one), String(other)),
  exported: ({ default: isDefault, ...thing }) => {
    if (!isDefault) return thing;
    const { matchers: _none, continue: _never, ...rest } = thing;
    return { default: true, ...rest };
  },
};

export function routePath(id: string): string {
  return `${ROUTES}/${encodeURIComponent(id)}`;
}

/** In their order; each goes by its place, from 1, the default one `default`. */
export async function existingRoutes(client: Client): Promise<Existing[]> {
  const names = new Map((await existingChannels(client)).map(({ id, name }) => [id, name]));
  const rows = await client.call<Row[]>("GET", ROUTES);
  return rows.map((row, at) => ({
    id: String(row["id"]),
    name: row["is_default"] === true ? DEFAULT : String(at + 1),
    thing: thingOf(row, names),
  }));
}

/** As the API has it. Throws Problem for a channel that is not there. */
export async function bodyOf(client: Client, thing: Thing): Promise<object> {
  const { matchers, channels, default: _, ...rest } = thing;
  const ids = new Map((await existingChannels(client)).map(({ id, name }) => [name, id]));
  const channel_ids = (channels as string[]).map((name) => {
    const id = ids.get(name);
    if (id === undefined) throw new Problem(`there is no channel ${name} in your organisation: \`atherops channels\` lists them`);
    return id;
  });
  return { ...rest, matchers: (matchers as string[]).map((text) => readMatcher(text, "matchers")), channel_ids };
}

function thingOf(row: Row, names: ReadonlyMap<string, string>): Thing {
  return {
    default: row["is_default"] === true,
    matchers: (row["matchers"] as RouteMatcher[]).map(matcherText),
    channels: (row["channel_ids"] as string[]).map((id) => names.get(id) ?? id),
    group_by: row["group_by"],
    group_wait: row["group_wait"],
    group_interval: row["group_interval"],
    repeat_interval: row["repeat_interval"],
    continue: row["continue"],
  };
}

function readRoute(fields: Fields): Thing {
  const isDefault = fields.flag("default", false);
  const matchers = fields.list("matchers").map((text) => matcherText(readMatcher(text, `${fields.where}.matchers`)));
  if (isDefault && matchers.length > 0)
    throw fields.problem("matchers", "the default route takes alerts that match no other route, and has no matchers");
  return {
    default: isDefault,
    matchers,
    channels: fields.list("channels"),
    group_by: fields.has("group_by") ? fields.list("group_by") : ["alertname"],
    group_wait: fields.text("group_wait", "30s"),
    group_interval: fields.text("group_interval", "5m"),
    repeat_interval: fields.text("repeat_interval", "4h"),
    continue: fields.flag("continue", false),
  };
}

function isSameDuration(one: string, other: string): boolean {
  const ms = durationMs(one);
  return ms !== undefined && ms === durationMs(other);
}
