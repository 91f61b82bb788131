// `atherops routes`, and routes in the files of `atherops apply`: which alerts go to which channels. Invariants: on the command line, a
// route is identified by its position in the list, or by its id. In a file, channels are named and matchers are text; the section is the
// whole list in its order, and the default route, if it is listed, is the last.
import type { Command } from "commander";
import { type Existing, type Kind, type Resource, storedAt } from "./alerting-file.ts";
import { Problem, WrongUsage } from "./cli-error.ts";
import { formatMatcher, type Matcher } from "../client/matcher.ts";
import { Fields, isSameDuration, readMatcher, typedMatcher } from "./alerting-fields.ts";
import type { Console } from "./output.ts";
import { channelKind, listChannels } from "./channel-kind.ts";
import type { Client } from "./api-client.ts";
import { addRemovalByName, collect, findExisting, findIn } from "./named-resources.ts";
import type { Row } from "./text-table.ts";

const ROUTES = "/alerting/routes";
const DEFAULT = "default";
const DURATIONS = ["group_wait", "group_interval", "repeat_interval"];

const { create, ...stored } = storedAt(ROUTES, toBody);

export const routeKind: Kind = {
  section: "routes",
  noun: "route",
  isCompleteList: true,
  isPermanent: (name) => name === DEFAULT,
  read: readRoute,
  nameOf: (resource, at) => (resource["default"] === true ? DEFAULT : String(at + 1)),
  list: listRoutes,
  create: async (client, resource) => {
    if (resource["default"] === true) throw new Problem("the default route always exists and cannot be created");
    return await create(client, resource);
  },
  ...stored,
  isSame: (field, existing, desired) => DURATIONS.includes(field) && isSameDuration(existing, desired),
  toFile: ({ default: isDefault, ...resource }) => {
    if (!isDefault) return resource;
    const { matchers: _matchers, continue: _continue, mute_time_intervals: _mute, active_time_intervals: _active, ...fields } = resource;
    return { default: true, ...fields };
  },
};

/** In order; each is identified by its position, from 1, the default route by `default`. */
async function listRoutes(client: Client): Promise<Existing[]> {
  const names = new Map((await listChannels(client)).map(({ id, name }) => [id, name]));
  const rows = await client.call<Row[]>("GET", ROUTES);
  return rows.map((row, at) => ({
    id: String(row["id"]),
    name: row["is_default"] === true ? DEFAULT : String(at + 1),
    resource: resourceOf(row, names),
  }));
}

/** The body in the API's form. Throws Problem if a channel does not exist. */
async function toBody(client: Client, resource: Resource): Promise<object> {
  const { matchers, channels, default: _, ...rest } = resource;
  const all = await listChannels(client);
  const channel_ids = (channels as string[]).map((nameOrId) => findIn(all, channelKind, nameOrId).id);
  return { ...rest, matchers: (matchers as string[]).map((text) => readMatcher(text, "matchers")), channel_ids };
}

function resourceOf(row: Row, names: ReadonlyMap<string, string>): Resource {
  return {
    default: row["is_default"] === true,
    matchers: (row["matchers"] as Matcher[]).map(formatMatcher),
    channels: (row["channel_ids"] as string[]).map((id) => names.get(id) ?? id),
    group_by: row["group_by"],
    group_wait: row["group_wait"],
    group_interval: row["group_interval"],
    repeat_interval: row["repeat_interval"],
    continue: row["continue"],
    mute_time_intervals: row["mute_time_intervals"],
    active_time_intervals: row["active_time_intervals"],
  };
}

function readRoute(fields: Fields): Resource {
  const isDefault = fields.flag("default", false);
  const matchers = fields.list("matchers").map((text) => formatMatcher(readMatcher(text, `${fields.where}.matchers`)));
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
    mute_time_intervals: fields.list("mute_time_intervals"),
    active_time_intervals: fields.list("active_time_intervals"),
  };
}

interface RouteOptions {
  match?: string[];
  channel?: string[];
  groupBy?: string[];
  wait?: string;
  interval?: string;
  repeat?: string;
  continue?: boolean;
  position?: string;
}

const COLUMNS = ["route", "matchers", "channels", "group_by", "group_wait", "group_interval", "repeat_interval", "continue", "id"];
/** A route with the defaults of a file. */
const NEW_ROUTE = readRoute(new Fields("new route", {}));

const UPDATE_HELP = `
--match, --channel and --group-by replace all previous values: --match '' matches every alert, --channel '' notifies no channel.

Examples:
  atherops routes update default --channel mail
  atherops routes update 2 --position 1 --match team=shop`;

export function addRouteCommands(program: Command, console: Console): void {
  const routes = program
    .command("routes")
    .description("routes: which alerts go to which channels; the first matching route applies, and later ones after --continue");
  routes
    .command("list", { isDefault: true })
    .description("all routes in evaluation order, the default route last")
    .action(async () => {
      printRoutes(console, await listRoutes(console.client()));
    });
  withOptions(routes.command("add").description("add a route, before the default route or at a position"))
    .option("--position <number>", "its position, from 1")
    .addHelpText(
      "after",
      `
Examples:
  atherops routes add --match severity=critical --channel on-call
  atherops routes add --match team=shop --match 'env=~"prod|staging"' --channel shop-bot --group-by team --repeat 1d
  atherops routes update default --channel mail          alerts that match no other route`,
    )
    .action(async (options: RouteOptions) => {
      if (!options.match && !options.channel)
        throw new WrongUsage("--match and --channel are missing: such a route would take every alert and notify no channel");
      const client = console.client();
      const body = await toBody(client, applyOptions(NEW_ROUTE, options));
      const created = await client.call<Record<string, unknown>>("POST", ROUTES, { body: { ...body, ...positionOf(options) } });
      console.result(String(created["id"]), `route ${Number(created["position"]) + 1} added`, created);
    });
  withOptions(routes.command("update <route>").description("change the given options of a route (position, id, or `default`)"))
    .option("--no-continue", "later routes are not evaluated")
    .option("--position <number>", "move it to this position, from 1")
    .addHelpText("after", UPDATE_HELP)
    .action(async (route: string, options: RouteOptions) => {
      if (Object.keys(options).length === 0) throw new WrongUsage("nothing to change: see `atherops routes update --help` for the options");
      const client = console.client();
      const { id, resource } = await findExisting(routeKind, client, route);
      const changes = options.match ? { ...options, match: options.match.filter(Boolean) } : options;
      await client.call("PUT", `${ROUTES}/${id}`, {
        body: { ...(await toBody(client, applyOptions(resource, changes))), ...positionOf(options) },
      });
      console.note(`route ${route} changed`);
    });
  routes
    .command("test <labels...>")
    .description("which routes an alert with these labels takes, such as `severity=critical team=shop`; nothing is sent")
    .action(async (pairs: string[]) => {
      const labels = Object.fromEntries(pairs.map(typedLabel));
      const client = console.client();
      const taken = await client.call<Row[]>("POST", `${ROUTES}/test`, { body: { labels } });
      const ids = new Set(taken.map(({ id }) => id));
      printRoutes(
        console,
        (await listRoutes(client)).filter(({ id }) => ids.has(id)),
      );
    });
  addRemovalByName(routes, console, routeKind, "remove a route (position or id)");
}

function printRoutes(console: Console, routes: readonly Existing[]): void {
  const rows = routes.map(({ id, name, resource }) => ({ route: name, ...resource, id }));
  console.print(rows, COLUMNS, (row) => ({ ...row, ...joinLists(row) }));
}

function typedLabel(pair: string): readonly [name: string, value: string] {
  const at = pair.indexOf("=");
  if (at < 1) throw new WrongUsage(`${pair} is no label: write name=value, such as severity=critical`);
  return [pair.slice(0, at), pair.slice(at + 1)];
}

function withOptions(command: Command): Command {
  return command
    .option("--match <matcher>", "such as severity=critical; repeatable, all must match", collect)
    .option("--channel <names>", "a receiver (name or id); repeatable", collectNames)
    .option(
      "--group-by <labels>",
      "alerts with the same values of these labels share a message, such as alertname,team; ... is all labels; default of a new route: alertname",
      collectNames,
    )
    .option("--wait <duration>", "how long a message waits for more new or resolved alerts; default of a new route: 30s")
    .option("--interval <duration>", "minimum time until a change of a group is sent; default of a new route: 5m")
    .option("--repeat <duration>", "how often an unchanged firing group is sent again; default of a new route: 4h")
    .option("--continue", "later routes are evaluated too");
}

/** Collects names of a repeatable option; one value may contain several, separated by commas. */
function collectNames(value: string, all: string[] = []): string[] {
  return [...all, ...value.split(",").filter(Boolean)];
}

function applyOptions(resource: Resource, options: RouteOptions): Resource {
  const changes = {
    matchers: options.match?.map((text) => typedMatcher(text, "--match")),
    channels: options.channel,
    group_by: options.groupBy,
    group_wait: options.wait,
    group_interval: options.interval,
    repeat_interval: options.repeat,
    continue: options.continue,
  };
  return { ...resource, ...Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) };
}

function positionOf({ position }: RouteOptions): { position?: number } {
  if (position === undefined) return {};
  if (!/^[1-9]\d{0,3}$/.test(position)) throw new WrongUsage(`--position ${position}: must be a whole number from 1`);
  return { position: Number(position) - 1 };
}

function joinLists(row: Resource): Resource {
  return Object.fromEntries(["matchers", "channels", "group_by"].map((name) => [name, (row[name] as string[]).join(", ")]));
}
