// Formats a message as an Adaptive Card for a webhook of Microsoft Teams' Workflows. Invariants: no part of a label or an annotation becomes
// markup, because a RichTextBlock, unlike a TextBlock, has no Markdown; the request stays below Teams' limit of 28 KB.
import { MAX_TEAMS_TEXT_LENGTH, MAX_TEAMS_TITLE_LENGTH } from "../notification-limits.ts";
import type { Message } from "../model/message.ts";
import { alertParagraphs, consoleLinks, type CustomTexts, defaultTitle, highestSeverity, oneLine, truncate } from "./message-template.ts";

/** Names of the colours of Adaptive Cards. */
const COLOURS = { critical: "Attention", warning: "Warning", info: "Accent" } as const;
const RESOLVED = "Good";

export function teamsBody(message: Message, custom: CustomTexts = {}): string {
  const title = custom.title === undefined ? defaultTitle(message) : oneLine(custom.title, MAX_TEAMS_TITLE_LENGTH);
  const color = message.status === "resolved" ? RESOLVED : COLOURS[highestSeverity(message)];
  const text = custom.text ?? alertParagraphs(message).join("\n\n");
  const organisation = oneLine(message.org.name, 100);
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.2",
    body: [
      textBlock(title, { weight: "Bolder", size: "Medium", color }),
      ...(text === "" ? [] : [textBlock(truncate(text, MAX_TEAMS_TEXT_LENGTH))]),
      ...(organisation === "" ? [] : [textBlock(organisation, { size: "Small", isSubtle: true })]),
    ],
    actions: consoleLinks(message).map(({ href, text: label }) => ({ type: "Action.OpenUrl", title: label, url: href })),
    msteams: { width: "Full" },
  };
  const attachment = { contentType: "application/vnd.microsoft.card.adaptive", contentUrl: null, content };
  return JSON.stringify({ type: "message", attachments: [attachment] });
}

function textBlock(text: string, style: object = {}): object {
  return { type: "RichTextBlock", inlines: [{ type: "TextRun", text, ...style }] };
}
