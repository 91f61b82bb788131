// Links an answer of the command line to the screen of the console that shows the same, with the same range and query. Invariants: every
// command is in this table, or in that of the test as one without a screen; the link is printed on stderr, so that a pipe gets rows only.
import type { Command } from "commander";
import { durationMs } from "../../common/duration.ts";
import { consoleAddress, type ConsoleQuery } from "../client/console-address.ts";
import { sinceStart, splitPair } from "./query-rows.ts";

type Options = Readonly<Record<string, unknown>>;
type Screen = readonly [screen: string, query?: ConsoleQuery, id?: string];
type ScreenOf = (args: readonly string[], options: Options) => Screen;

/** Commands, or groups of commands, with a screen. The longest name that a command begins with applies. */
const SCREENS: Readonly<Record<string, ScreenOf>> = {
  accounts: () => ["settings", { part: "organisations" }],
  alerts: () => ["alerts", { view: "firing" }],
  audit: () => ["settings", { part: "audit" }],
  changes: (_args, options) => ["changes", { with: text(options, "compareWith"), service: text(options, "service"), ...range(options) }],
  channels: () => ["alerts", { view: "channels" }],
  clusters: () => ["fleet"],
  dashboards: () => ["dashboards"],
  deliveries: () => ["alerts", { view: "deliveries" }],
  fleet: () => ["fleet"],
  hosts: () => ["fleet"],
  "ingest-tokens": () => ["settings", { part: "credentials" }],
  invitations: () => ["settings", { part: "users" }],
  keys: () => ["settings", { part: "credentials" }],
  limits: () => ["settings", { part: "usage" }],
  logs: (args, options) => [
    "logs",
    {
      q: logQuery(args, options),
      view: options["patterns"] === true ? "patterns" : undefined,
      fields: options["field"] === undefined ? undefined : "1",
      live: options["follow"] === true ? "1" : undefined,
      ...range(options),
    },
  ],
  metrics: ([query], options) => ["metrics", { q: query, ...range(options) }],
  orgs: () => ["settings", { part: "organisations" }],
  "read-tokens": () => ["settings", { part: "credentials" }],
  routes: () => ["alerts", { view: "routes" }],
  rules: ([rule]) => ["alerts", { rule: isId(rule) ? rule : undefined }],
  services: (_args, options) => ["services", range(options)],
  "services map": (_args, options) => ["services", { view: "map", ...range(options) }],
  "services operations": ([service], options) => ["services", range(options), service],
  silences: () => ["alerts", { view: "silences" }],
  slos: ([slo]) => ["slos", {}, isId(slo) ? slo : undefined],
  tail: (args, options) => ["logs", { q: logQuery(args, options), live: "1" }],
  tokens: () => ["settings", { part: "credentials" }],
  trace: ([id]) => ["traces", {}, id?.toLowerCase()],
  traces: (_args, options) => {
    const id = text(options, "traceId");
    return id === undefined ? ["traces", { ...spans(options), ...range(options) }] : ["traces", {}, id.toLowerCase()];
  },
  "traces search": (_args, options) => [
    "traces",
    { ...spans(options), sort: options["order"] === "duration" ? "slowest" : undefined, ...range(options) },
  ],
  usage: () => ["settings", { part: "usage" }],
  users: () => ["settings", { part: "users" }],
};

export const SCREEN_NAMES: readonly string[] = Object.keys(SCREENS);

/** The address of the screen (`#/…`); undefined if there is none. */
export function screenOf(command: Command): string | undefined {
  const name = longestIn(SCREEN_NAMES, command);
  const screen = name === undefined ? undefined : SCREENS[name]?.(command.args, command.optsWithGlobals());
  return screen && consoleAddress(...screen);
}

/** The entry of `names` that is the command or the closest of its groups. */
export function longestIn(names: readonly string[], command: Command): string | undefined {
  const path: string[] = [];
  for (let current: Command | null = command; current?.parent; current = current.parent) path.unshift(current.name());
  for (let length = path.length; length > 0; length -= 1) {
    const name = path.slice(0, length).join(" ");
    if (names.includes(name)) return name;
  }
  return undefined;
}

function text(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

function texts(options: Options, name: string): string[] {
  return [options[name] ?? []].flat().map(String);
}

/** Absolute times, so that the link shows the same minutes later. */
function range(options: Options): ConsoleQuery {
  return {
    from: text(options, "start") ?? sinceStart(text(options, "since") ?? "1h"),
    to: text(options, "end") ?? new Date().toISOString(),
  };
}

function isId(value: string | undefined): value is string {
  return value !== undefined && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value);
}

const not = (conditions: readonly string[]): string[] => conditions.map((condition) => `-${condition}`);

/** The filters of `atherops logs` in the query language. */
function logQuery(args: readonly string[], options: Options): string | undefined {
  const typed = args.join(" ");
  const fields = { source: "source", level: "level", hostId: "host_id", node: "node", traceId: "trace_id" };
  const labels = (name: string): string[] =>
    texts(options, name).map((pair) => {
      const [key = "", value = ""] = splitPair(pair) ?? [];
      return `${/^[\w.@/-]+$/.test(key) ? `label.${key}` : quote(key)}:${quote(value)}`;
    });
  const regexes = (name: string): string[] => texts(options, name).map((pattern) => `/${pattern.replaceAll("/", String.raw`\/`)}/`);
  const conditions = [
    ...Object.entries(fields).flatMap(([option, field]) => texts(options, option).map((value) => `${field}:${quote(value)}`)),
    ...[...texts(options, "word").flatMap((words) => words.split(/\s+/)), ...texts(options, "grep")].filter(Boolean).map(quote),
    ...not(texts(options, "notGrep").map(quote)),
    ...regexes("regex"),
    ...not(regexes("notRegex")),
    ...labels("label"),
    ...not(labels("notLabel")),
  ];
  const isGroup = conditions.length > 0 && /\bOR\b/.test(typed);
  return [isGroup ? `(${typed})` : typed, ...conditions].filter(Boolean).join(" ") || undefined;
}

function spans(options: Options): ConsoleQuery {
  const attributes = [...texts(options, "label"), ...texts(options, "where")];
  return {
    service: text(options, "service"),
    operation: text(options, "operation"),
    error: options["error"] === true ? "true" : undefined,
    min: text(options, "minMs") ?? milliseconds(text(options, "min")),
    max: text(options, "maxMs") ?? milliseconds(text(options, "max")),
    attributes: attributes.map((comparison) => (/\s/.test(comparison) ? quoteValue(comparison) : comparison)).join(" ") || undefined,
  };
}

/** The part behind the first `=` in quotes. */
function quoteValue(comparison: string): string {
  const equals = comparison.indexOf("=");
  return equals < 0 ? comparison : `${comparison.slice(0, equals)}=${quote(comparison.slice(equals + 1))}`;
}

function milliseconds(duration: string | undefined): string | undefined {
  return duration === undefined ? undefined : durationMs(duration)?.toString();
}

function quote(value: string): string {
  return /^[\w.@-]+$/.test(value) && !/^(?:AND|OR|NOT)$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
