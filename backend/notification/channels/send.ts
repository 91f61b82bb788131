// Sends one message to one channel, once; deliveries and tests of a channel have no other path. Invariants: an outcome states what the
// receiver did and whether a later attempt can succeed, and contains nothing internal to the operator; secrets only appear in what is sent.
import type { Email } from "./email.ts";
import type { OpenChannel, Outcome, Send } from "../model/message.ts";
import { oneLine, renderTemplates } from "./message-template.ts";
import { type Outgoing, type PostResponse, RequestFailed } from "../../outgoing/outgoing.ts";
import { teamsBody } from "./msteams.ts";
import { OPSGENIE_REGIONS, opsgenieRequest } from "./opsgenie.ts";
import { pagerDutyEvent } from "./pagerduty.ts";
import { signatureHeaders, webhookBody } from "./webhook.ts";
import { slackBody } from "./slack.ts";

export interface SendOptions {
  readonly outgoing: Outgoing;
  /** Undefined without SMTP_URL. */
  readonly email?: Email | undefined;
  readonly now?: () => number;
}

/** Responses of these hosts are sentences for the user who configured the channel; those of other hosts may contain anything. */
const HOSTS_WITH_MESSAGES =
  /^(?:hooks\.slack(?:-gov)?\.com|events(?:\.eu)?\.pagerduty\.com|api(?:\.eu)?\.opsgenie\.com|api\.atlassian\.com)$/;
const JSON_TYPE = { "content-type": "application/json", "user-agent": "atherops" };

export function createSend({ outgoing, email, now = Date.now }: SendOptions): Send {
  const post = async (url: URL, body: string, signal: AbortSignal, headers: Record<string, string> = {}): Promise<Outcome> => {
    try {
      return toOutcome(await outgoing.post({ url, body, headers: { ...JSON_TYPE, ...headers }, signal }), url);
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      return { delivered: false, retry: error.retry, error: error.message };
    }
  };
  const senders: Record<OpenChannel["kind"], Send> = {
    webhook: async (channel, message, signal) => {
      const body = webhookBody(message);
      const secrets = [channel.secret, ...(channel.previousSecret === undefined ? [] : [channel.previousSecret])];
      const headers = signatureHeaders(body, { id: message.id, secrets, atMs: now() });
      return await post(toUrl(channel.settings["url"]), body, signal, headers);
    },
    slack: async (channel, message, signal) =>
      await post(toUrl(channel.secret), slackBody(message, renderTemplates(channel.settings, message)), signal),
    msteams: async (channel, message, signal) =>
      await post(toUrl(channel.secret), teamsBody(message, renderTemplates(channel.settings, message)), signal),
    opsgenie: async (channel, message, signal) => {
      const region = OPSGENIE_REGIONS.find((known) => known === channel.settings["region"]) ?? "us";
      const { url, body } = opsgenieRequest(message, region, renderTemplates(channel.settings, message));
      return await post(url, body, signal, { authorization: `GenieKey ${channel.secret}` });
    },
    pagerduty: async (channel, message, signal) => {
      const region = channel.settings["region"] === "eu" ? "eu" : "us";
      const { url, body } = pagerDutyEvent(message, {
        routingKey: channel.secret,
        region,
        custom: renderTemplates(channel.settings, message),
      });
      return await post(url, body, signal);
    },
    email: async (channel, message, signal) => {
      if (!email) return { delivered: false, retry: false, error: "this installation sends no e-mail: its operator has not set SMTP_URL" };
      return await email.send(message, channel.settings["to"] as readonly string[], signal, renderTemplates(channel.settings, message));
    },
  };
  return async (channel, message, signal) => await senders[channel.kind](channel, message, signal);
}

function toUrl(text: unknown): URL {
  return new URL(String(text));
}

function toOutcome({ status, text, retryAfterMs }: PostResponse, { hostname }: URL): Outcome {
  if (status >= 200 && status < 300) return { delivered: true, httpStatus: status };
  const retry = status === 408 || status === 429 || status >= 500;
  const explanation = HOSTS_WITH_MESSAGES.test(hostname) ? oneLine(text, 200) : "";
  const reason = status >= 300 && status < 400 ? ": redirects are not followed" : explanation && `: ${explanation}`;
  return { delivered: false, retry, httpStatus: status, error: `the receiver responded with status ${status}${reason}`, retryAfterMs };
}
