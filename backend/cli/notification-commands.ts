// `atherops channels`, `routes`, `silences`, `deliveries` and `alerts`: manage notifications, one resource at a time. Invariants: a secret
// is read from a file, never from an argument; a generated one is printed once.
import { Argument, Option, type Command } from "commander";
import { CHANNEL_KINDS, channelKind, CHANNELS, listChannels, readSecretFile } from "./channel-kind.ts";
import { Problem, WrongUsage } from "./cli-error.ts";
import { typedMatcher } from "./alerting-fields.ts";
import { addRemovalByName, addSwitches, findExisting, collect } from "./named-resources.ts";
import { addList, type Console } from "./output.ts";
import { readRows, rowLimit } from "./query-rows.ts";
import { addRouteCommands } from "./notification-routes.ts";
import { addSilenceCommands } from "./silences.ts";
import type { Row } from "./text-table.ts";

interface ChannelOptions {
  kind: string;
  endpoint?: string;
  urlFile?: string;
  routingKeyFile?: string;
  apiKeyFile?: string;
  region?: string;
  to?: string[];
  title?: string;
  textFile?: string;
  heartbeat?: string;
}

export function addNotificationCommands(program: Command, console: Console): void {
  addChannels(program, console);
  addRouteCommands(program, console);
  addSilenceCommands(program, console);
  addDeliveries(program, console);
  addAlerts(program, console);
}

function addChannels(program: Command, console: Console): void {
  const channels = program.command("channels").description("channels: receivers of messages about alerts");
  const columns = ["name", "kind", "enabled", "settings", "heartbeat", "id"];
  addList(channels, console, { description: "all channels; secrets are never shown", path: CHANNELS, columns });
  channels
    .command("create <name>")
    .description("create a channel; add a route to send alerts to it")
    .addOption(new Option("--kind <kind>", "type of receiver").choices(CHANNEL_KINDS).makeOptionMandatory())
    .option("--endpoint <url>", "webhook: its https:// URL")
    .option("--url-file <file>", "Slack, Microsoft Teams: a file with the URL of the webhook, which is a secret")
    .option("--routing-key-file <file>", "PagerDuty: a file with the integration key")
    .option("--api-key-file <file>", "Opsgenie: a file with the key of an API integration")
    .addOption(
      new Option("--region <region>", "PagerDuty, Opsgenie: service region; jsm: Jira Service Management").choices(["us", "eu", "jsm"]),
    )
    .option("--to <address>", "e-mail: address of a user of your organisation; repeatable", collect)
    .option("--title <template>", "custom title: '{{ labels.team }}: {{ count }} {{ status }}'; not for a webhook")
    .option("--text-file <file>", "file with a template for the custom text; not for a webhook")
    .option("--heartbeat <duration>", "heartbeat interval, such as 1d")
    .addHelpText(
      "after",
      `
Prints a webhook's signing secret to stdout, once; the receiver uses it to verify messages (Standard Webhooks). Examples:
  atherops channels create shop-bot --kind webhook --endpoint https://bot.shop.example/alerts > signing-secret
  atherops channels create on-call --kind pagerduty --routing-key-file pagerduty-key
  atherops channels create mail --kind email --to me@example.com --to you@example.com
  atherops channels test shop-bot`,
    )
    .action(async (name: string, options: ChannelOptions) => {
      const [option, value] = requiredOption(options);
      if (value === undefined) throw new WrongUsage(`${option}: is missing: see \`atherops channels create --help\``);
      const body = { name, kind: options.kind, settings: channelSettings(options), heartbeat: options.heartbeat ?? null };
      const created = await console.call<Row>("POST", CHANNELS, { body });
      const { signing_secret: secret } = created;
      if (typeof secret !== "string") console.result(String(created["id"]), `channel ${name} created`, created);
      else console.result(secret, `channel ${name} created; its signing secret is not shown again`, created);
    });
  addSwitches(channels, console, channelKind, {
    enable: "enable a channel (by name or id)",
    disable: "disable a channel (by name or id): it gets no messages",
  });
  addChannelCalls(channels, console);
}

function addChannelCalls(channels: Command, console: Console): void {
  channels
    .command("test <channel>")
    .description("send a test message to a channel (by name or id), like an alert")
    .action(async (channel: string) => {
      const { id, name } = await findExisting(channelKind, console.client(), channel);
      const result = await console.call<{ delivered: boolean; status: number | null; error: string | null }>(
        "POST",
        `${CHANNELS}/${id}/test`,
      );
      if (!result.delivered) throw new Problem(`channel ${name}: not delivered: ${result.error}`);
      console.note(`channel ${name}: delivered${result.status ? ` (${result.status})` : ""}`);
    });
  channels
    .command("rotate <channel>")
    .description("rotate the signing secret of a webhook (by name or id); prints only the secret to stdout")
    .action(async (channel: string) => {
      const { id, name } = await findExisting(channelKind, console.client(), channel);
      const rotated = await console.call<{ signing_secret: string; previous_until: string }>("POST", `${CHANNELS}/${id}/rotate`);
      console.result(rotated.signing_secret, `channel ${name}: messages carry both signatures until ${rotated.previous_until}`, rotated);
    });
  addRemovalByName(channels, console, channelKind, "remove a channel (by name or id)");
}

/** The option that this kind of channel requires, and its value. */
function requiredOption(options: ChannelOptions): readonly [option: string, value: unknown] {
  const { kind, endpoint, urlFile, routingKeyFile, apiKeyFile, to } = options;
  if (kind === "slack" || kind === "msteams") return ["--url-file", urlFile];
  if (kind === "pagerduty") return ["--routing-key-file", routingKeyFile];
  if (kind === "opsgenie") return ["--api-key-file", apiKeyFile];
  return kind === "email" ? ["--to", to] : ["--endpoint", endpoint];
}

function channelSettings({ endpoint, urlFile, routingKeyFile, apiKeyFile, region, to, title, textFile }: ChannelOptions): object {
  return {
    ...(endpoint !== undefined && { url: endpoint }),
    ...(urlFile !== undefined && { url: readSecretFile(urlFile) }),
    ...(routingKeyFile !== undefined && { routing_key: readSecretFile(routingKeyFile) }),
    ...(apiKeyFile !== undefined && { api_key: readSecretFile(apiKeyFile) }),
    ...(region !== undefined && { region }),
    ...(to && { to }),
    ...(title !== undefined && { title }),
    ...(textFile !== undefined && { text: readSecretFile(textFile) }),
  };
}

function addDeliveries(program: Command, console: Console): void {
  program
    .command("deliveries")
    .description("messages of the last 30 days, at most 10,000, and their results, newest first")
    .addOption(new Option("--status <status>", "only messages with this status").choices(["pending", "delivered", "failed"]))
    .option("--channel <channel>", "only messages to this channel (by name or id)")
    .addOption(new Option("--limit <rows>", "maximum number of messages").default("100", "100"))
    .addHelpText("after", "\nExamples:\n  atherops deliveries --status failed\n  atherops deliveries --channel on-call --limit 10")
    .action(async ({ status, channel, limit }: { status?: string; channel?: string; limit: string }) => {
      const client = console.client();
      const maxRows = rowLimit(limit);
      const channel_id = channel === undefined ? undefined : (await findExisting(channelKind, client, channel)).id;
      const names = new Map((await listChannels(client)).map(({ id, name }) => [id, name]));
      const rows = await readRows(console, "/alerting/deliveries", { status, channel_id }, maxRows);
      const shown = rows.map((row) => ({ ...row, channel: names.get(String(row["channel_id"])) ?? row["channel_id"] }));
      console.print(shown, ["created_at", "channel", "status", "attempts", "http_status", "error", "id"]);
    });
}

interface RoutedAlert extends Row {
  labels: Record<string, string>;
  status: { state: string; silencedBy: string[] };
  receivers: { name: string }[];
}

function addAlerts(program: Command, console: Console): void {
  program
    .command("alerts")
    .description("firing alerts and their channels; `suppressed`: silenced or inhibited")
    .addArgument(new Argument("[matchers...]", "such as severity=critical or team!=shop; all must match"))
    .option("--silenced", "only silenced alerts")
    .option("--channel <name>", "only alerts of this channel (name or id)")
    .addHelpText(
      "after",
      "\nAlerts fire with or without a channel; CHANNELS is empty if no channel is notified. Examples:\n  atherops alerts severity=critical\n  atherops alerts --silenced",
    )
    .action(async (matchers: string[], { silenced, channel }: { silenced?: boolean; channel?: string }) => {
      const filter = matchers.map((text) => typedMatcher(text, "matcher"));
      const client = console.client();
      const receiver =
        channel && (await findExisting(channelKind, client, channel)).name.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
      const query = { filter, receiver, ...(silenced && { active: "false" }) };
      const all = await client.call<RoutedAlert[]>("GET", "/alerting/alertmanager/api/v2/alerts", { query });
      // Without active alerts, the response still has inhibited ones.
      const rows = silenced ? all.filter(({ status }) => status.silencedBy.length > 0) : all;
      console.print(rows, ["alert", "severity", "state", "since", "channels", "labels"], ({ status, receivers, startsAt, ...row }) => {
        const { alertname: alert, severity, ...labels } = row.labels;
        return { alert, severity, state: status.state, since: startsAt, channels: receivers.map(({ name }) => name).join(", "), labels };
      });
    });
}
