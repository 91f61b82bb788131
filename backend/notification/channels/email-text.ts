// A message as an e-mail of plain text. Invariant: there is nothing in it that a mail program runs, fetches or shows as markup.
import { createHash } from "node:crypto";
import { MAX_EMAIL_SUBJECT_LENGTH } from "../limits.ts";
import { leftOut, linesOf, linkTo, oneLine, ruleOf, SHOWN_ALERTS, SHOWN_LABELS, titleOf } from "./message-text.ts";
import type { OwnWords } from "./message-template.ts";
import type { Message } from "../model/message.ts";

export interface EmailText {
  readonly subject: string;
  readonly text: string;
  /** Stay the same over attempts, and over the messages of a group: mail programs show those together. */
  readonly messageId: string;
  readonly references: string;
}

/** `domain`: of the sender's address; `words`: the channel's own. */
export function emailText(message: Message, domain: string, words: OwnWords = {}): EmailText {
  const said = words.text === undefined ? commonWords(message) : [words.text];
  const parts = [...said, `Sent by the channel "${oneLine(message.receiver, 200)}" of ${oneLine(message.org.name, 200)}.`];
  const thread = createHash("sha256").update(`${message.org.id}|${message.groupKey}`).digest("hex").slice(0, 32);
  return {
    subject: words.title === undefined ? titleOf(message) : oneLine(words.title, MAX_EMAIL_SUBJECT_LENGTH),
    text: `${parts.join("\n\n")}\n`,
    messageId: `<${message.id}@${domain}>`,
    references: `<${thread}@${domain}>`,
  };
}

function commonWords(message: Message): string[] {
  const link = linkTo(message, ruleOf(message));
  const rest = leftOut(message);
  const alerts = message.alerts.slice(0, SHOWN_ALERTS).map((alert) => {
    const { summary, labels, description } = linesOf(alert, message);
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
    titleOf(message, 500),
    ...alerts,
    ...(rest ? [rest] : []),
    ...(common.length > 0 ? [`labels of all:\n${common.join("\n")}`] : []),
    ...(link ? [link] : []),
  ];
}
