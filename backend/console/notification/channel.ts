// A channel as the alerting service has it: somewhere a message about alerts goes to.
import type { ApiBodies, ApiResponses } from "../../client/api.ts";
import { call } from "../state/api.ts";

export const CHANNELS = "/alerting/channels";

export type ChannelKind = "webhook" | "slack" | "pagerduty" | "email";

/** Said instead of the words that all have; not of a webhook. */
export interface OwnWords {
  readonly title?: string;
  readonly text?: string;
}

/** With the settings of all kinds; secrets are never returned. */
export type Channel = Omit<ApiResponses["POST /alerting/channels"], "settings"> & {
  readonly settings: Omit<ApiBodies["POST /alerting/channels"]["settings"], "routing_key">;
};

export const KINDS: readonly (readonly [ChannelKind, string])[] = [
  ["webhook", "Webhook"],
  ["slack", "Slack"],
  ["pagerduty", "PagerDuty"],
  ["email", "E-mail"],
];

export function kindOf(text: string | null): ChannelKind {
  return KINDS.find(([kind]) => kind === text)?.[0] ?? "webhook";
}

export function kindName(kind: ChannelKind): string {
  return KINDS.find(([one]) => one === kind)?.[1] ?? kind;
}

/** Where its messages go, as far as that may be told. */
export function targetOf({ kind, settings }: Channel): string {
  if (kind === "email") return (settings.to ?? []).join(", ");
  if (kind === "pagerduty") return settings.region === "eu" ? "events.eu.pagerduty.com" : "events.pagerduty.com";
  return settings.url ?? "a channel of Slack";
}

export async function channelsNow(signal: AbortSignal): Promise<Channel[]> {
  return await call<Channel[]>(CHANNELS, { signal });
}
