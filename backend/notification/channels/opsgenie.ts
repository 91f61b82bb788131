// Formats a message as a request of Opsgenie's Alert API v2, which Jira Service Management also has. Invariants: all messages of a group have
// the same alias, so that a resolved message closes the alert that the firing one created; a heartbeat pings Opsgenie's heartbeat of the
// channel's name, which creates no alert.
import { createHash } from "node:crypto";
import {
  MAX_OPSGENIE_DESCRIPTION_LENGTH,
  MAX_OPSGENIE_DETAILS_LENGTH,
  MAX_OPSGENIE_MESSAGE_LENGTH,
  MAX_OPSGENIE_SOURCE_LENGTH,
} from "../notification-limits.ts";
import type { Message } from "../model/message.ts";
import { alertParagraphs, consoleLinks, type CustomTexts, defaultTitle, highestSeverity, oneLine, truncate } from "./message-template.ts";

const ORIGINS = {
  us: "https://api.opsgenie.com",
  eu: "https://api.eu.opsgenie.com",
  jsm: "https://api.atlassian.com/jsm/ops/integration",
} as const;
type OpsgenieRegion = keyof typeof ORIGINS;
export const OPSGENIE_REGIONS = Object.keys(ORIGINS) as OpsgenieRegion[];

const PRIORITIES = { critical: "P1", warning: "P3", info: "P5" } as const;

interface OpsgenieRequest {
  readonly url: URL;
  readonly body: string;
}

/** `custom`: the channel's own texts. The key is not part of the request: it belongs into the header `authorization: GenieKey …`. */
export function opsgenieRequest(message: Message, region: OpsgenieRegion, custom: CustomTexts = {}): OpsgenieRequest {
  const source = oneLine(message.org.name, MAX_OPSGENIE_SOURCE_LENGTH) || "atherops";
  const request = (path: string, body: object): OpsgenieRequest => ({
    url: new URL(`${ORIGINS[region]}/v2/${path}`),
    body: JSON.stringify(body),
  });
  if (message.purpose === "heartbeat") return request(`heartbeats/${encodeURIComponent(message.receiver)}/ping`, {});
  const alias = createHash("sha256").update(message.groupKey).digest("hex");
  if (message.status === "resolved") return request(`alerts/${alias}/close?identifierType=alias`, { source });
  const { title = defaultTitle(message, MAX_OPSGENIE_MESSAGE_LENGTH), text } = custom;
  const links = consoleLinks(message).map(({ href, text: label }) => `${label}: ${href}`);
  return request("alerts", {
    message: oneLine(title, MAX_OPSGENIE_MESSAGE_LENGTH),
    alias,
    description: truncate([text ?? alertParagraphs(message).join("\n\n"), ...links].join("\n\n"), MAX_OPSGENIE_DESCRIPTION_LENGTH),
    details: detailsOf(message.commonLabels),
    source,
    priority: PRIORITIES[highestSeverity(message)],
  });
}

/** As many labels as fit. */
function detailsOf(labels: Message["commonLabels"]): Record<string, string> {
  const details: Record<string, string> = {};
  let length = 0;
  for (const [name, value] of Object.entries(labels)) {
    const [key, detail] = [oneLine(name, 200), oneLine(value, 300)];
    length += key.length + detail.length;
    if (length > MAX_OPSGENIE_DETAILS_LENGTH) break;
    details[key] = detail;
  }
  return details;
}
