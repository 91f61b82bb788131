// Builds the address of the console's page of an alert, for the console and for messages to channels. It contains the labels, so the page
// finds the alert after it has ended, too.
import { consoleAddress } from "./console-address.ts";

/** Links longer than about 2,000 characters are cut by some receivers; labels that do not fit are left out. */
const MAX_LABEL_CHARACTERS = 1000;
/** The rule has these already. */
const OF_RULE = new Set(["alertname", "severity"]);

export interface AlertIdentity {
  readonly ruleId: string;
  /** The labels of one alert, or those that all alerts of a message share. */
  readonly labels: Readonly<Record<string, string>>;
  /** RFC 3339. */
  readonly startsAt: string;
}

/** `#/alerts/RULE?label=name%3Dvalue&at=…`. */
export function alertAddress({ ruleId, labels, startsAt }: AlertIdentity): string {
  let characters = 0;
  const parts = Object.entries(labels).flatMap(([name, value]) => {
    const part = `${name}=${value}`;
    if (OF_RULE.has(name) || characters + part.length > MAX_LABEL_CHARACTERS) return [];
    characters += part.length;
    return [part.toWellFormed()];
  });
  return consoleAddress("alerts", { label: parts, at: startsAt }, ruleId);
}
