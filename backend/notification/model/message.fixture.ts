// A message as the dispatcher creates them, for tests of channels.
import { randomUUID } from "node:crypto";
import type { Message, MessageAlert } from "./message.ts";

export function alertOf(more: Partial<MessageAlert> = {}): MessageAlert {
  return {
    fingerprint: "0123456789abcdef",
    ruleId: "11111111-1111-4111-8111-111111111111",
    labels: { alertname: "HighLoad", severity: "warning", instance: "node-1" },
    annotations: { summary: "Load of node-1 is 12" },
    startsAt: "2026-11-22T10:00:00.000Z",
    endsAt: undefined,
    status: "firing",
    ...more,
  };
}

export function messageOf(more: Partial<Message> = {}): Message {
  return {
    id: randomUUID(),
    purpose: "alerts",
    org: { id: "22222222-2222-4222-8222-222222222222", name: "Blue" },
    channelId: "33333333-3333-4333-8333-333333333333",
    receiver: "on call",
    groupKey: '{}:{alertname="HighLoad"}',
    groupLabels: { alertname: "HighLoad" },
    commonLabels: { alertname: "HighLoad", severity: "warning" },
    commonAnnotations: {},
    status: "firing",
    alerts: [alertOf()],
    truncatedAlerts: 0,
    externalUrl: "https://telemetry.example/",
    ...more,
  };
}

/** Label values that a tenant could send: everything that some receiver interprets as more than text. */
export const HOSTILE = '<!channel> <@U1> <https://evil.example|click> & *bold* <b>x</b> \r\nBcc: all@evil.example\u2028\u202e\0 "quoted"';
