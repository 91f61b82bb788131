// Makes the message about a group. Invariant: it is bounded in alerts and bytes, whatever fires; what does not fit is counted in it, and
// those that fire come first.
import { MAX_ALERTS_PER_MESSAGE, MAX_MESSAGE_BYTES } from "../limits.ts";
import type { Alert, Channel, Message, MessageAlert } from "./message.ts";

export interface MessageParts {
  readonly id: string;
  readonly purpose: Message["purpose"];
  readonly org: Message["org"];
  readonly channel: Pick<Channel, "id" | "name">;
  readonly groupKey: string;
  readonly groupLabels: Message["groupLabels"];
  /** With annotations where the message has room for them. */
  readonly firing: readonly Alert[];
  readonly resolved: readonly Alert[];
  readonly externalUrl: string;
}

export function composeMessage(parts: MessageParts): Message {
  const { firing, resolved, channel } = parts;
  const alerts: MessageAlert[] = [];
  let bytes = 0;
  for (const alert of [...firing, ...resolved]) {
    const one = messageAlert(alert);
    bytes += Buffer.byteLength(JSON.stringify(one));
    if (alerts.length === MAX_ALERTS_PER_MESSAGE || (bytes > MAX_MESSAGE_BYTES && alerts.length > 0)) break;
    alerts.push(one);
  }
  return {
    id: parts.id,
    purpose: parts.purpose,
    org: parts.org,
    channelId: channel.id,
    receiver: channel.name,
    groupKey: parts.groupKey,
    groupLabels: parts.groupLabels,
    commonLabels: commonOf(alerts.map(({ labels }) => labels)),
    commonAnnotations: commonOf(alerts.map(({ annotations }) => annotations)),
    status: firing.length > 0 ? "firing" : "resolved",
    alerts,
    truncatedAlerts: firing.length + resolved.length - alerts.length,
    externalUrl: parts.externalUrl,
  };
}

function messageAlert({ fingerprint, ruleId, labels, annotations, startsAt, endsAt, status }: Alert): MessageAlert {
  const times = { startsAt: startsAt.toISOString(), ...(endsAt && { endsAt: endsAt.toISOString() }) };
  return { fingerprint, ruleId, labels, annotations, ...times, status };
}

type Texts = Readonly<Record<string, string>>;

function commonOf([first = {}, ...others]: readonly Texts[]): Texts {
  return Object.fromEntries(Object.entries(first).filter(([name, text]) => others.every((other) => other[name] === text)));
}
