// Channels, routes and deliveries as the alerting API returns them: a route leads alerts to channels, and each message to a channel is a
// delivery.
import type { ApiBodies, ApiResponses } from "../../client/api.ts";
import { call } from "../state/api.ts";

export const CHANNELS = "/alerting/channels";

export type ChannelKind = ApiBodies["POST /alerting/channels"]["kind"];

/** Replaces the standard title and text of messages; a webhook has no such setting. */
export interface CustomText {
  readonly title?: string;
  readonly text?: string;
}

/** With the settings of all kinds; secrets are never returned. */
export type Channel = Omit<ApiResponses["POST /alerting/channels"], "settings"> & {
  readonly settings: Omit<ApiBodies["POST /alerting/channels"]["settings"], "routing_key" | "api_key">;
};

export const KINDS: readonly (readonly [ChannelKind, string])[] = [
  ["webhook", "Webhook"],
  ["slack", "Slack"],
  ["msteams", "Microsoft Teams"],
  ["pagerduty", "PagerDuty"],
  ["opsgenie", "Opsgenie"],
  ["email", "E-mail"],
];

export function parseKind(text: string | null): ChannelKind {
  return KINDS.find(([kind]) => kind === text)?.[0] ?? "webhook";
}

export function kindName(kind: ChannelKind): string {
  return KINDS.find(([name]) => name === kind)?.[1] ?? kind;
}

/** Where its messages go, as far as the API returns it: the URLs of Slack and Microsoft Teams are secrets. */
export function targetText({ kind, settings }: Channel): string {
  if (kind === "email") return (settings.to ?? []).join(", ");
  if (kind === "pagerduty") return settings.region === "eu" ? "events.eu.pagerduty.com" : "events.pagerduty.com";
  if (kind === "opsgenie" && settings.region === "jsm") return "Jira Service Management";
  if (kind === "opsgenie") return settings.region === "eu" ? "api.eu.opsgenie.com" : "api.opsgenie.com";
  return settings.url ?? kindName(kind);
}

export async function listChannels(signal: AbortSignal): Promise<Channel[]> {
  return await call<Channel[]>(CHANNELS, { signal });
}

export const ROUTES = "/alerting/routes";

export type NotificationRoute = ApiResponses["GET /alerting/routes"][number];
export type NewRoute = Omit<NotificationRoute, "id" | "position" | "created_at">;

/** The defaults of the API. */
export const NEW_ROUTE: NewRoute = {
  matchers: [],
  channel_ids: [],
  group_by: ["alertname"],
  group_wait: "30s",
  group_interval: "5m",
  repeat_interval: "4h",
  continue: false,
  mute_time_intervals: [],
  active_time_intervals: [],
  is_default: false,
};

export const TIME_INTERVALS = "/alerting/time-intervals";

export type TimeInterval = ApiResponses["GET /alerting/time-intervals"][number];

export const DELIVERIES = "/alerting/deliveries";

export type Delivery = ApiResponses["GET /alerting/deliveries"][number];
