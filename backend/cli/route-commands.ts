// `atherops routes`: which alerts go to which channels, one route at a time. Invariant: a route goes by its place in the list, or by its id.
import type { Command } from "commander";
import type { Existing, Thing } from "./alerting-plan.ts";
import { Problem, WrongUsage } from "./cli-error.ts";
import { typedMatcher } from "./matcher-text.ts";
import type { Console } from "./output.ts";
import { bodyOf, existingRoutes, routePath, ROUTES } from "./route-kind.ts";

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
const NEW: Thing = {
  default: false,
  matchers: [],
  channels: [],
  group_by: ["alertname"],
  group_wait: "30s",
  group_interval: "5m",
  repeat_interval: "4h",
  continue: false,
};

const UPDATE_HELP = `
--match, --channel and --group-by replace all that there were: --match '' takes every alert, --channel '' tells nobody.

Examples:
  atherops routes update default --channel mail
  atherops routes update 2 --position 1 --match team=shop`;

export function addRouteCommands(program: Command, console: Console): void {
  const routes = program
    .command("routes")
    .description("routes: which alerts go to which channels; the first that takes an alert ends the search");
  routes
    .command("list", { isDefault: true })
    .description("all routes in their order, the default one last")
    .action(async () => {
      const all = await existingRoutes(console.client());
      const rows = all.map(({ id, name, thing }) => ({ route: name, ...thing, id }));
      const shown = rows.map((row) => ({ ...row, ...joined(row) }));
      console.print(console.json ? rows : shown, COLUMNS);
    });
  withOptions(routes.command("add").description("add a route: the last one before the default route, or at a place"))
    .option("--position <number>", "its place, from 1")
    .addHelpText(
      "after",
      `
Examples:
  atherops routes add --match severity=critical --channel on-call
  atherops routes add --match team=shop --match 'env=~"prod|staging"' --channel shop-bot --group-by team --repeat 1d
  atherops routes update default --channel mail          what no other route takes`,
    )
    .action(async (options: RouteOptions) => {
      if (!options.match && !options.channel)
        throw new WrongUsage("--match: is missing, and so is --channel: such a route would take every alert, and tell nobody");
      const client = console.client();
      const body = await bodyOf(client, changed(NEW, options));
      const made = await client.call<Record<string, unknown>>("POST", ROUTES, { body: { ...body, ...placeOf(options) } });
      console.result(String(made["id"]), `route ${Number(made["position"]) + 1} added`, made);
    });
  withOptions(
    routes.command("update <route>").description("change what is given of a route (by its place, id, or `default`), and nothing else"),
  )
    .option("--no-continue", "later routes are not asked")
    .option("--position <number>", "move it to this place, from 1")
    .addHelpText("after", UPDATE_HELP)
    .action(async (route: string, options: RouteOptions) => {
      if (Object.keys(options).length === 0)
        throw new WrongUsage("nothing to change: `atherops routes update --help` tells what may be given");
      const client = console.client();
      const { id, thing } = await found(console, route);
      const given = options.match ? { ...options, match: options.match.filter(Boolean) } : options;
      await client.call("PUT", routePath(id), { body: { ...(await bodyOf(client, changed(thing, given))), ...placeOf(options) } });
      console.note(`route ${route} changed`);
    });
  routes
    .command("remove <route>")
    .description("remove a route (by its place or id)")
    .action(async (route: string) => {
      await console.client().call("DELETE", routePath((await found(console, route)).id));
      console.note(`route ${route} removed`);
    });
}

function withOptions(command: Command): Command {
  return command
    .option("--match <matcher>", "such as severity=critical; repeatable, all have to hold", several)
    .option("--channel <names>", "who is told; repeatable", some)
    .option("--group-by <labels>", "told together where these are the same, such as alertname,team; ... is all; default alertname", some)
    .option("--wait <duration>", "how long a new group waits for others of its alerts; default 30s")
    .option("--interval <duration>", "how long until a change of a group is told; default 5m")
    .option("--repeat <duration>", "how long until the same is told again; default 4h")
    .option("--continue", "later routes are asked too");
}

function several(value: string, all: string[] = []): string[] {
  return [...all, value];
}

/** Repeatable, and several at once. */
function some(value: string, all: string[] = []): string[] {
  return [...all, ...value.split(",").filter(Boolean)];
}

function changed(thing: Thing, options: RouteOptions): Thing {
  const given = {
    matchers: options.match?.map((text) => typedMatcher(text, "--match")),
    channels: options.channel,
    group_by: options.groupBy,
    group_wait: options.wait,
    group_interval: options.interval,
    repeat_interval: options.repeat,
    continue: options.continue,
  };
  return { ...thing, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
}

function placeOf({ position }: RouteOptions): { position?: number } {
  if (position === undefined) return {};
  if (!/^[1-9]\d{0,3}$/.test(position)) throw new WrongUsage(`--position ${position}: must be a whole number from 1`);
  return { position: Number(position) - 1 };
}

async function found(console: Console, route: string): Promise<Existing> {
  const all = await existingRoutes(console.client());
  const match = all.find(({ name }) => name === route) ?? all.find(({ id }) => id === route);
  if (!match) throw new Problem(`there is no route ${route} in your organisation: \`atherops routes\` lists them`);
  return match;
}

/** Lists as people write them. */
function joined(row: Thing): Thing {
  return Object.fromEntries(["matchers", "channels", "group_by"].map((name) => [name, (row[name] as string[]).join(", ")]));
}
