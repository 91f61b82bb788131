// Channels in `atherops apply` and `atherops channels`. Invariant: a channel's secret can be written but never read back, so it is not
// compared: it is sent if the channel is created, or if another of its fields changes.
import { type Fields, isObject, isSameDuration } from "./alerting-fields.ts";
import { type Existing, type Kind, type Resource, storedAt } from "./alerting-file.ts";
import { isDeepStrictEqual } from "node:util";
import type { Client } from "./api-client.ts";
import { readTextFile } from "./text-files.ts";
import type { Row } from "./text-table.ts";

export const CHANNEL_KINDS = ["webhook", "slack", "msteams", "pagerduty", "opsgenie", "email"];
export const CHANNELS = "/alerting/channels";
/** Kind → the setting that is secret. */
const SECRET: Readonly<Record<string, string>> = { slack: "url", msteams: "url", pagerduty: "routing_key", opsgenie: "api_key" };
const CUSTOM_TEXTS = ["title", "text"];

export const channelKind: Kind = {
  section: "channels",
  noun: "channel",
  read: readChannel,
  nameOf: ({ name }) => String(name),
  list: listChannels,
  ...storedAt(CHANNELS),
  isSame: (field, existing, desired) =>
    field === "settings" ? isSameSettings(existing, desired) : field === "heartbeat" && isSameDuration(existing, desired),
};

export async function listChannels(client: Client): Promise<Existing[]> {
  const rows = await client.call<Row[]>("GET", CHANNELS);
  return rows.map(({ id, name, kind, settings, enabled, heartbeat }) => ({
    id: String(id),
    name: String(name),
    resource: { name, kind, settings, enabled, heartbeat: heartbeat ?? null },
  }));
}

/** Secrets are read from files, because other users of the machine can see arguments. */
export function readSecretFile(file: string): string {
  return readTextFile(file).trim();
}

function readChannel(fields: Fields): Resource {
  const name = fields.text("name");
  const kind = fields.oneOf("kind", CHANNEL_KINDS);
  const written = fields.any("settings") ?? {};
  if (!isObject(written)) throw fields.problem("settings", "must be a mapping");
  const settings = Object.fromEntries(
    Object.entries(written).map(([key, value]) => {
      const secret = key.replace(/_file$/, "");
      return key !== secret && secret === SECRET[kind] && typeof value === "string" ? [secret, readSecretFile(value)] : [key, value];
    }),
  );
  return {
    name,
    kind,
    settings,
    enabled: fields.flag("enabled", true),
    heartbeat: fields.any("heartbeat") ?? null,
  };
}

/** Compares all settings except secrets and those that the backend adds. */
function isSameSettings(existing: unknown, desired: unknown): boolean {
  if (!isObject(existing) || !isObject(desired)) return false;
  const secrets = new Set(Object.values(SECRET));
  // If a file omits custom texts, they are removed.
  if (CUSTOM_TEXTS.some((key) => key in existing && !(key in desired))) return false;
  return Object.entries(desired).every(([key, value]) => (key in existing ? isDeepStrictEqual(existing[key], value) : secrets.has(key)));
}
