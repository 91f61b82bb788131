// Schemas of a channel, for writing and for reading. Invariants: secrets can be written but never read back; a receiver's address that can
// never be sent to is refused when it is written, with the field's name; texts have a maximum length.
import {
  closedSchema,
  nameSchema,
  objectSchema,
  readDurationMs,
  OPTIONAL_TIME_SCHEMA,
  TIME_SCHEMA,
  UUID_SCHEMA,
  invalidField,
} from "../../http/schemas.ts";
import { MAX_CHANNEL_URL_LENGTH, MAX_RECIPIENTS, MAX_TEXT_TEMPLATE_LENGTH, MAX_TITLE_TEMPLATE_LENGTH } from "../notification-limits.ts";
import { EMAIL_ADDRESS, type Email } from "./email.ts";
import { findTemplateProblem } from "./message-template.ts";
import { OPSGENIE_REGIONS } from "./opsgenie.ts";
import type { ChannelKind } from "../model/message.ts";
import type { Outgoing } from "../../outgoing/outgoing.ts";

export interface ChannelBody {
  readonly name: string;
  readonly kind: ChannelKind;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly enabled: boolean;
  readonly heartbeat: string | null;
}

/** A validated body, its settings without secrets. */
export interface CheckedChannel {
  readonly name: string;
  readonly kind: ChannelKind;
  readonly settings: Readonly<Record<string, unknown>>;
  /** Undefined: the request has none. A webhook's secret is never sent by the user, but generated here. */
  readonly secret: string | undefined;
  readonly enabled: boolean;
  readonly heartbeatSeconds: number | null;
}

export interface ChannelCheck {
  readonly outgoing: Pick<Outgoing, "findUrlProblem">;
  /** Undefined without SMTP_URL. */
  readonly email?: Pick<Email, "findForeign"> | undefined;
}

const HEARTBEAT = { minMs: 60_000, maxMs: 31 * 86_400_000 };
const SETTINGS = {
  url: {
    type: "string",
    minLength: 1,
    maxLength: MAX_CHANNEL_URL_LENGTH,
    description:
      "for a webhook, Slack or Microsoft Teams: https://…, not an internal address unless the operator allows it; except a webhook's, it is a secret and never returned",
  },
  routing_key: { type: "string", pattern: "^[A-Za-z0-9]{20,64}$", description: "for PagerDuty; a secret and never returned" },
  api_key: {
    type: "string",
    pattern: "^[A-Za-z0-9-]{20,100}$",
    description: "for Opsgenie: the key of an API integration; a secret and never returned",
  },
  region: {
    type: "string",
    enum: OPSGENIE_REGIONS,
    description: "of PagerDuty or Opsgenie; jsm, only for Opsgenie: the same API of Jira Service Management",
  },
  title: {
    type: "string",
    minLength: 1,
    maxLength: MAX_TITLE_TEMPLATE_LENGTH,
    description: "custom title, such as {{ labels.team }}: {{ count }} {{ status }}; not for a webhook",
  },
  text: {
    type: "string",
    minLength: 1,
    maxLength: MAX_TEXT_TEMPLATE_LENGTH,
    description: "custom text, such as {{#alerts}}{{ annotations.summary }}{{/alerts}}; not for a webhook",
  },
  to: {
    type: "array",
    minItems: 1,
    maxItems: MAX_RECIPIENTS,
    items: { type: "string", minLength: 3, maxLength: 254 },
    description: "for e-mail: addresses of users of your organisation, and of domains that the operator allows",
  },
} as const;
const SETTINGS_BY_KIND: Readonly<Record<ChannelKind, readonly (keyof typeof SETTINGS)[]>> = {
  webhook: ["url"],
  slack: ["url", "title", "text"],
  msteams: ["url", "title", "text"],
  pagerduty: ["routing_key", "region", "title", "text"],
  opsgenie: ["api_key", "region", "title", "text"],
  email: ["to", "title", "text"],
};
const KINDS = Object.keys(SETTINGS_BY_KIND) as ChannelKind[];

export const CHANNEL_BODY_SCHEMA = closedSchema(["name", "kind", "settings"], {
  name: { ...nameSchema(200), description: "unique in the organisation" },
  kind: { type: "string", enum: KINDS, description: "cannot be changed" },
  settings: { type: "object", additionalProperties: false, properties: SETTINGS, description: "by kind" },
  enabled: { type: "boolean", default: true },
  heartbeat: {
    type: ["string", "null"],
    maxLength: 40,
    default: null,
    description: "heartbeat interval, for example 1d; a missing heartbeat means that alerting is down",
  },
});

export const CHANNEL_SCHEMA = objectSchema(
  ["id", "name", "kind", "settings", "enabled", "heartbeat", "last_heartbeat_at", "secret_rotated_at", "created_at"],
  {
    id: UUID_SCHEMA,
    name: { type: "string" },
    kind: { type: "string", enum: KINDS },
    settings: {
      type: "object",
      additionalProperties: true,
      description: "secrets are left out; viewers see only the host of a webhook's URL",
    },
    enabled: { type: "boolean" },
    heartbeat: { type: ["string", "null"] },
    last_heartbeat_at: OPTIONAL_TIME_SCHEMA,
    secret_rotated_at: OPTIONAL_TIME_SCHEMA,
    created_at: TIME_SCHEMA,
    signing_secret: { type: "string", description: "for a webhook: whsec_…, returned only when the channel is created" },
  },
);

/** Throws ApiError `invalid_field`, naming the field. */
export async function checkChannel(orgId: string, body: ChannelBody, { outgoing, email }: ChannelCheck): Promise<CheckedChannel> {
  const { name, kind, enabled } = body;
  const common = { name, kind, enabled, heartbeatSeconds: heartbeatSeconds(body.heartbeat) };
  const { settings } = body;
  const unknown = Object.keys(settings).find((setting) => !SETTINGS_BY_KIND[kind].some((known) => known === setting));
  if (unknown !== undefined)
    throw invalidField(`settings.${unknown}`, `not a setting of the kind ${kind}; its settings are ${SETTINGS_BY_KIND[kind].join(", ")}`);
  const templates = checkTemplates(settings);
  if (kind === "webhook") return { ...common, settings: { url: checkUrl(settings["url"], outgoing).href }, secret: undefined };
  if (kind === "slack" || kind === "msteams") {
    const url = settings["url"] === undefined ? undefined : checkUrl(settings["url"], outgoing);
    return { ...common, settings: templates, secret: url?.href };
  }
  if (kind === "pagerduty" || kind === "opsgenie") {
    const { routing_key, api_key, region = "us" } = settings as { routing_key?: string; api_key?: string; region?: string };
    if (region === "jsm") checkJiraServiceManagement(body);
    return { ...common, settings: { region, ...templates }, secret: routing_key ?? api_key };
  }
  const to = await checkRecipients(orgId, settings["to"] as string[] | undefined, email);
  return { ...common, settings: { to, ...templates }, secret: undefined };
}

function checkJiraServiceManagement({ kind, heartbeat }: ChannelBody): void {
  if (kind !== "opsgenie") throw invalidField("settings.region", "must be us or eu");
  if (heartbeat !== null) throw invalidField("heartbeat", "must be null: the API key of Jira Service Management cannot ping a heartbeat");
}

function checkTemplates(settings: ChannelBody["settings"]): { title?: string; text?: string } {
  const templates: { title?: string; text?: string } = {};
  for (const field of ["title", "text"] as const) {
    const template = settings[field];
    if (typeof template !== "string") continue;
    const problem = findTemplateProblem(template, field);
    if (problem !== undefined) throw invalidField(`settings.${field}`, problem);
    templates[field] = template;
  }
  return templates;
}

function checkUrl(text: unknown, outgoing: ChannelCheck["outgoing"]): URL {
  if (typeof text !== "string") throw invalidField("settings.url", "is required");
  const parsed = URL.parse(text);
  if (!parsed) throw invalidField("settings.url", "is not a URL");
  const problem = outgoing.findUrlProblem(parsed);
  if (problem !== undefined) throw invalidField("settings.url", problem);
  // The fragment is never sent.
  parsed.hash = "";
  return parsed;
}

async function checkRecipients(orgId: string, to: readonly string[] | undefined, email: ChannelCheck["email"]): Promise<string[]> {
  if (to === undefined) throw invalidField("settings.to", "is required");
  const invalid = to.find((address) => !EMAIL_ADDRESS.test(address));
  if (invalid !== undefined) throw invalidField("settings.to", `${JSON.stringify(invalid)} is not an e-mail address`);
  if (!email) throw invalidField("kind", "this installation sends no e-mail: its operator has not set SMTP_URL");
  const recipients = [...new Map(to.map((address) => [address.toLowerCase(), address])).values()];
  const [foreign] = await email.findForeign(orgId, recipients);
  if (foreign !== undefined)
    throw invalidField("settings.to", `${foreign} is neither a user of your organisation nor in SMTP_ALLOWED_DOMAINS`);
  return recipients;
}

function heartbeatSeconds(text: string | null): number | null {
  if (text === null) return null;
  return Math.round(readDurationMs("heartbeat", text, HEARTBEAT, "1h or 1d") / 1000);
}
