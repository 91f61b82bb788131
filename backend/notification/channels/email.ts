// Sends messages as plain-text e-mails through the operator's SMTP server. Invariants: mail goes only to users of the organisation and to
// domains that the operator lists, checked at each attempt; an address is a single address, whatever it contains; only the code of the
// server's response is shown to users; a password is sent unencrypted only to a server on loopback; the text has no markup. The first
// message loads the mailer.
import { bareHost, isLoopback } from "../../../common/ip-networks.ts";
import type { Log } from "../../log.ts";
import { MAX_EMAIL_SUBJECT_LENGTH, MAX_SMTP_RESPONSE_BYTES } from "../notification-limits.ts";
import {
  remainderText,
  alertTexts,
  changesLink,
  consoleLink,
  oneLine,
  type CustomTexts,
  SHOWN_ALERTS,
  SHOWN_LABELS,
  defaultTitle,
} from "./message-template.ts";
import type { Message, Outcome } from "../model/message.ts";
import { trustedAuthorities } from "../../outgoing/outgoing.ts";
import { createHash } from "node:crypto";

/** `domain`: the domain of the sender's address; `custom`: the channel's own texts. */
export function buildEmail(message: Message, domain: string, custom: CustomTexts = {}) {
  const content = custom.text === undefined ? defaultText(message) : [custom.text];
  const parts = [...content, `Sent by the channel "${oneLine(message.receiver, 200)}" of ${oneLine(message.org.name, 200)}.`];
  const thread = createHash("sha256").update(`${message.org.id}|${message.groupKey}`).digest("hex").slice(0, 32);
  return {
    subject: custom.title === undefined ? defaultTitle(message) : oneLine(custom.title, MAX_EMAIL_SUBJECT_LENGTH),
    text: `${parts.join("\n\n")}\n`,
    // All attempts have the same id, by which receivers can recognise a repeated message.
    messageId: `<${message.id}@${domain}>`,
    // All messages of a group have the same reference, so that mail programs show them as one thread.
    references: `<${thread}@${domain}>`,
  };
}

function defaultText(message: Message): string[] {
  const link = consoleLink(message);
  const changes = changesLink(message);
  const remainder = remainderText(message);
  const alerts = message.alerts.slice(0, SHOWN_ALERTS).map((alert) => {
    const { summary, labels, description } = alertTexts(alert, message);
    const since = oneLine(alert.startsAt, 40);
    const until = alert.endsAt === undefined ? "" : `\n  until ${oneLine(alert.endsAt, 40)}`;
    return [`${alert.status}: ${summary}`, labels && `  ${labels}`, description && `  ${description}`, `  since ${since}${until}`]
      .filter(Boolean)
      .join("\n");
  });
  const common = Object.entries(message.commonLabels)
    .slice(0, SHOWN_LABELS)
    .map(([name, value]) => `  ${oneLine(name, 200)}: ${oneLine(value, 300)}`);
  return [
    defaultTitle(message, 500),
    ...alerts,
    ...(remainder ? [remainder] : []),
    ...(common.length > 0 ? [`labels of all:\n${common.join("\n")}`] : []),
    ...(link ? [link] : []),
    ...(changes ? [`what changed: ${changes}`] : []),
  ];
}

export interface EmailOptions {
  /** `smtp://` or `smtps://`, with user and password if the server requires them. A secret. */
  readonly smtpUrl: string;
  readonly from: string;
  /** Domains with unrestricted recipients, in lower case. */
  readonly allowedDomains: readonly string[];
  /** PEM of authorities, in addition to the system's and well-known ones. */
  readonly caFile?: string | undefined;
  /** Returns those of these addresses that are users of the organisation; all in lower case. */
  readonly findUsers: (orgId: string, addresses: readonly string[]) => Promise<readonly string[]>;
  readonly log?: Log | undefined;
  readonly timeoutMs?: number;
}

/** A single address, without a name, comments, quotes or source routes, which parsers interpret differently. */
export const EMAIL_ADDRESS =
  /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*$/;

const TIMEOUT_MS = 10_000;

export class Email {
  readonly #options: EmailOptions;
  #ca: string[] | undefined;

  constructor(options: EmailOptions) {
    this.#options = options;
  }

  /** Addresses that belong neither to a user of the organisation nor to a domain that the operator lists. */
  async findForeign(orgId: string, addresses: readonly string[]): Promise<string[]> {
    const { allowedDomains, findUsers } = this.#options;
    const others = addresses.filter((address) => !allowedDomains.includes(domainOf(address)));
    if (others.length === 0) return [];
    const users = new Set(await findUsers(orgId, others.map(lower)));
    return others.filter((address) => !users.has(address.toLowerCase()));
  }

  /** Never throws because of the server. `custom`: the channel's own texts. */
  async send(message: Message, to: readonly string[], signal: AbortSignal, custom?: CustomTexts): Promise<Outcome> {
    const foreign = new Set(await this.findForeign(message.org.id, to));
    const recipients = to.filter((address) => EMAIL_ADDRESS.test(address) && !foreign.has(address));
    if (recipients.length === 0) return { delivered: false, retry: false, error: "no recipient is still a user of the organisation" };
    const timeout = AbortSignal.timeout(this.#options.timeoutMs ?? TIMEOUT_MS);
    try {
      await settleOrAbort(AbortSignal.any([timeout, signal]), this.#deliver(message, recipients, custom));
      return { delivered: true };
    } catch (error) {
      this.#options.log?.debug({ event: "notification.email_failed", err: error }, "mail server did not accept a message");
      return describeFailure(error, timeout.aborted);
    }
  }

  async #deliver(message: Message, recipients: readonly string[], custom: CustomTexts | undefined): Promise<void> {
    const { createTransport } = await import("nodemailer");
    const { from, timeoutMs = TIMEOUT_MS } = this.#options;
    const transport = createTransport({
      ...this.#server(),
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      dnsTimeout: timeoutMs,
      maxResponseSize: MAX_SMTP_RESPONSE_BYTES,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    const { subject, text, messageId, references } = buildEmail(message, domainOf(from), custom);
    await transport.sendMail({
      from: { name: "AtherOps", address: from },
      to: recipients.map((address) => ({ name: "", address })),
      subject,
      text,
      messageId,
      references,
      // Prevents automatic replies (RFC 3834).
      headers: { "Auto-Submitted": "auto-generated" },
    });
  }

  #server() {
    const url = new URL(this.#options.smtpUrl);
    const secure = url.protocol === "smtps:";
    const [user, pass] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
    const hasLogin = user !== "";
    return {
      host: bareHost(url.hostname),
      port: url.port === "" ? (secure ? 465 : 587) : Number(url.port),
      secure,
      requireTLS: hasLogin && !isLoopback(url.hostname),
      ...(hasLogin && { auth: { user, pass } }),
      tls: { ca: (this.#ca ??= trustedAuthorities(this.#options.caFile)) },
    };
  }
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}

function lower(address: string): string {
  return address.toLowerCase();
}

/** Ends the wait when `signal` aborts; the server may take longer, and the transport's own timeouts end its connection. */
async function settleOrAbort(signal: AbortSignal, sending: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(new Error("aborted"));
  signal.addEventListener("abort", abort, { once: true });
  try {
    if (signal.aborted) abort();
    await Promise.race([sending, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    sending.catch(() => undefined);
  }
}

/** 5xx is permanent (RFC 5321, 4.2.1), except for logins, which the operator can fix. */
function describeFailure(error: unknown, timedOut: boolean): Outcome {
  const { responseCode, response, code } = error as { responseCode?: number; response?: string; code?: string };
  if (timedOut) return { delivered: false, retry: true, error: "the mail server did not respond in time" };
  if (typeof responseCode !== "number")
    return { delivered: false, retry: true, error: `the mail server cannot be reached${/^E[A-Z]+$/.test(code ?? "") ? `: ${code}` : ""}` };
  if (code === "EAUTH") return { delivered: false, retry: true, error: "the mail server rejects the credentials of SMTP_URL" };
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response ?? "")?.[1];
  const reply = [responseCode, enhanced].filter(Boolean).join(" ");
  return { delivered: false, retry: responseCode < 500, error: `the mail server answered ${reply}` };
}
