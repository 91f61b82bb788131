// Formats a message for a Slack incoming webhook, and for services that accept the same format (Mattermost, Rocket.Chat). Invariants: no
// part of a label or an annotation becomes markup: no link, no mention of a person or a channel, no bold text; Slack fetches no URL that a
// value contains.
import { MAX_SLACK_TEXT_LENGTH, MAX_SLACK_TITLE_LENGTH } from "../notification-limits.ts";
import {
  alertParagraphs,
  changesLink,
  consoleLink,
  oneLine,
  type CustomTexts,
  highestSeverity,
  defaultTitle,
  withoutLastLink,
} from "./message-template.ts";
import type { Message } from "../model/message.ts";

const COLOURS = { critical: "#d40e0d", warning: "#e8a317", info: "#3b82f6" } as const;
const RESOLVED = "#2e9e44";

export function slackBody(message: Message, custom: CustomTexts = {}): string {
  const text =
    custom.text === undefined
      ? joinParagraphs(alertParagraphs(message), MAX_SLACK_TEXT_LENGTH)
      : truncateEscaped(custom.text, MAX_SLACK_TEXT_LENGTH);
  const link = consoleLink(message);
  const changes = changesLink(message);
  const title = custom.title === undefined ? defaultTitle(message) : oneLine(custom.title, MAX_SLACK_TITLE_LENGTH);
  return JSON.stringify({
    text: escapeText(title),
    attachments: [
      {
        color: message.status === "resolved" ? RESOLVED : COLOURS[highestSeverity(message)],
        fallback: escapeText(title),
        ...(text !== "" && { text }),
        // No field contains markup.
        mrkdwn_in: [],
        ...(link !== undefined && { title: "Open in the console", title_link: link }),
        ...(changes !== undefined && { author_name: "What changed", author_link: changes }),
        footer: escapeText(oneLine(message.org.name, 100)),
        ts: Math.floor(Date.parse(message.alerts[0]?.startsAt ?? "") / 1000) || undefined,
      },
    ],
    // Outside of attachments too: no bold text, URLs stay text, names are not looked up, nothing is fetched.
    mrkdwn: false,
    parse: "none",
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  });
}

/** Escapes the three characters that Slack interprets as markup. */
function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The longest beginning of the text that has at most `maxLength` characters once escaped. */
function truncateEscaped(text: string, maxLength: number): string {
  let escaped = "";
  for (const character of text) {
    const more = escapeText(character);
    if (escaped.length + more.length + 1 > maxLength) return `${withoutLastLink(escaped)}…`;
    escaped += more;
  }
  return escaped;
}

/** The first paragraphs, as many as fit into `maxLength` characters once escaped. */
function joinParagraphs(paragraphs: readonly string[], maxLength: number): string {
  let text = "";
  for (const paragraph of paragraphs.map(escapeText)) {
    if (text.length + paragraph.length + 2 > maxLength) return `${text}\n\n…`;
    text += text === "" ? paragraph : `\n\n${paragraph}`;
  }
  return text;
}
