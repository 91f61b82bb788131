// The types that the parts of notification exchange: alerts, channels, the message for one channel, and its outcome; and the function that
// composes the message about a group. Invariants: a message is complete and JSON-safe, because it waits in the database; a secret is only
// in an OpenChannel, which is never stored. A message is limited in alerts and bytes; it counts the alerts that do not fit, and firing ones
// come first.
import { MAX_ALERTS_PER_MESSAGE, MAX_MESSAGE_BYTES } from "../notification-limits.ts";

export type ChannelKind = "webhook" | "slack" | "msteams" | "pagerduty" | "opsgenie" | "email";

/** Fields of a channel that every user of the organisation may read. */
export interface Channel {
  readonly id: string;
  readonly orgId: string;
  readonly name: string;
  readonly kind: ChannelKind;
  /** By kind; nothing in it is secret. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly enabled: boolean;
}

/** A channel with decrypted secrets: only for the time of one attempt, never logged. */
export interface OpenChannel extends Channel {
  readonly secret: string;
  /** Also valid during a rotation. */
  readonly previousSecret?: string | undefined;
}

export interface Alert {
  /** 16 hexadecimal digits; a hash of all labels. */
  readonly fingerprint: string;
  readonly ruleId: string;
  /** Without the server's own `org_id`, `rule_id` and `alertgroup`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: Date;
  /** Undefined while it fires. */
  readonly endsAt: Date | undefined;
  readonly status: "firing" | "resolved";
  /** By a silence or by another alert. */
  readonly silenced: boolean;
}

/** An alert in a message: times are RFC 3339. */
export interface MessageAlert extends Omit<Alert, "startsAt" | "endsAt" | "silenced"> {
  readonly startsAt: string;
  readonly endsAt?: string | undefined;
}

export interface Message {
  /** Id of the delivery (`webhook-id`), the same for all attempts. */
  readonly id: string;
  /** `heartbeat`: alerting works; there are no alerts. `test`: a user requested it. */
  readonly purpose: "alerts" | "heartbeat" | "test";
  readonly org: { readonly id: string; readonly name: string };
  readonly channelId: string;
  /** The channel's name. */
  readonly receiver: string;
  /** Identifies route and group; the same for all messages about the group. */
  readonly groupKey: string;
  readonly groupLabels: Readonly<Record<string, string>>;
  /** Labels that all alerts of the message share. */
  readonly commonLabels: Readonly<Record<string, string>>;
  readonly commonAnnotations: Readonly<Record<string, string>>;
  /** Resolved if no alert of the group fires. */
  readonly status: "firing" | "resolved";
  /** Firing alerts first. */
  readonly alerts: readonly MessageAlert[];
  /** Number of alerts that do not fit into the message. */
  readonly truncatedAlerts: number;
  /** The address of the console; empty if it is not configured. */
  readonly externalUrl: string;
}

export type Outcome =
  | { readonly delivered: true; readonly httpStatus?: number | undefined }
  | {
      readonly delivered: false;
      /** False: no later attempt can succeed. */
      readonly retry: boolean;
      readonly httpStatus?: number | undefined;
      /** For users of the organisation: it contains nothing internal. */
      readonly error: string;
      readonly retryAfterMs?: number | undefined;
    };

/** Sends a message once, within its own timeout, or until `signal` aborts. Never throws because of a receiver. */
export type Send = (channel: OpenChannel, message: Message, signal: AbortSignal) => Promise<Outcome>;

export interface MessageParts {
  readonly id: string;
  readonly purpose: Message["purpose"];
  readonly org: Message["org"];
  readonly channel: Pick<Channel, "id" | "name">;
  readonly groupKey: string;
  readonly groupLabels: Message["groupLabels"];
  /** With annotations if they fit into the message. */
  readonly firing: readonly Alert[];
  readonly resolved: readonly Alert[];
  readonly externalUrl: string;
}

export function composeMessage(parts: MessageParts): Message {
  const { firing, resolved, channel } = parts;
  const alerts: MessageAlert[] = [];
  let bytes = 0;
  for (const alert of [...firing, ...resolved]) {
    const entry = toMessageAlert(alert);
    bytes += Buffer.byteLength(JSON.stringify(entry));
    if (alerts.length === MAX_ALERTS_PER_MESSAGE || (bytes > MAX_MESSAGE_BYTES && alerts.length > 0)) break;
    alerts.push(entry);
  }
  return {
    id: parts.id,
    purpose: parts.purpose,
    org: parts.org,
    channelId: channel.id,
    receiver: channel.name,
    groupKey: parts.groupKey,
    groupLabels: parts.groupLabels,
    commonLabels: findCommon(alerts.map(({ labels }) => labels)),
    commonAnnotations: findCommon(alerts.map(({ annotations }) => annotations)),
    status: firing.length > 0 ? "firing" : "resolved",
    alerts,
    truncatedAlerts: firing.length + resolved.length - alerts.length,
    externalUrl: parts.externalUrl,
  };
}

function toMessageAlert({ fingerprint, ruleId, labels, annotations, startsAt, endsAt, status }: Alert): MessageAlert {
  const times = { startsAt: startsAt.toISOString(), ...(endsAt && { endsAt: endsAt.toISOString() }) };
  return { fingerprint, ruleId, labels, annotations, ...times, status };
}

type Texts = Readonly<Record<string, string>>;

function findCommon([first = {}, ...others]: readonly Texts[]): Texts {
  return Object.fromEntries(Object.entries(first).filter(([name, text]) => others.every((other) => other[name] === text)));
}
