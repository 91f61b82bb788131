// Channels in `atherops apply` and `atherops channels`. Invariant: a channel's secret can be written but never read back, so it is not
// compared: it is sent if the channel is created, or if another of its fields changes.
import { readFileSync } from "node:fs";
import { type Fields, isObject, isSameDuration } from "./alerting-fields.ts";
import type { Existing, Kind, Resource } from "./alerting-file.ts";
import { isDeepStrictEqual } from "node:util";
import type { Client } from "./client.ts";
import { Problem } from "./cli-error.ts";
import type { Row } from "./table.ts";

export const CHANNEL_KINDS = ["webhook", "slack", "pagerduty", "email"];
export const CHANNELS = "/alerting/channels";
/** Kind → the setting that is secret. */
const SECRET: Readonly<Record<string, string>> = { slack: "url", pagerduty: "routing_key" };
const OWN_WORDS = ["title", "text"];

export const channelKind: Kind = {
  section: "channels",
  noun: "channel",
  read: readChannel,
  nameOf: ({ name }) => String(name),
  list: existingChannels,
  create: async (client, body) => madeText(await client.call<Row>("POST", CHANNELS, { body })),
  replace: async (client, id, body) => void (await client.call("PUT", channelPath(id), { body })),
  remove: async (client, id) => void (await client.call("DELETE", channelPath(id))),
  same: (field, one, other) => (field === "settings" ? isSame(one, other) : field === "heartbeat" && isSameDuration(one, other)),
};

export function channelPath(id: string): string {
  return `${CHANNELS}/${encodeURIComponent(id)}`;
}

/** The text that is shown only once, after a channel was created. */
export function madeText({ signing_secret: secret }: Row): string | undefined {
  return typeof secret === "string" ? `signing secret, not shown again: ${secret}` : undefined;
}

export async function existingChannels(client: Client): Promise<Existing[]> {
  const rows = await client.call<Row[]>("GET", CHANNELS);
  return rows.map(({ id, name, kind, settings, enabled, heartbeat }) => ({
    id: String(id),
    name: String(name),
    resource: { name, kind, settings, enabled, heartbeat: heartbeat ?? null },
  }));
}

/** Returns the text of a file without surrounding white space. Secrets are read from files, because other users can see arguments. */
export function textOfFile(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new Problem(`${file}: cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function readChannel(fields: Fields): Resource {
  const name = fields.text("name");
  const kind = fields.oneOf("kind", CHANNEL_KINDS);
  const given = fields.any("settings") ?? {};
  if (!isObject(given)) throw fields.problem("settings", "must be a mapping");
  const settings = Object.fromEntries(
    Object.entries(given).map(([key, value]) => {
      const secret = key.replace(/_file$/, "");
      return key !== secret && secret === SECRET[kind] && typeof value === "string" ? [secret, textOfFile(value)] : [key, value];
    }),
  );
  return {
    name,
    kind,
    settings,
    enabled: fields.flag("enabled", true),
    heartbeat: fields.has("heartbeat") ? (fields.any("heartbeat") ?? null) : null,
  };
}

/** Compares everything except secrets and what the backend adds. */
function isSame(existing: unknown, wanted: unknown): boolean {
  if (!isObject(existing) || !isObject(wanted)) return false;
  const secrets = new Set(Object.values(SECRET));
  // If a file omits a channel's own texts, they are removed.
  if (OWN_WORDS.some((key) => key in existing && !(key in wanted))) return false;
  return Object.entries(wanted).every(([key, value]) => (key in existing ? isDeepStrictEqual(existing[key], value) : secrets.has(key)));
}
