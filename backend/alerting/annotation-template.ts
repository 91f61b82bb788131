// Says which templates an annotation may hold. Invariant: a template that passes can only print the alert's own values through a few
// formatters: no loops, definitions, queries or growing text, because templates run inside the evaluator of all tenants. Used by
// rule.ts.

const VALUE = String.raw`(?:\$value|\.Value|\$labels\.[a-zA-Z_]\w*|\.Labels\.[a-zA-Z_]\w*|\$expr|\.Expr|\$for|\$activeAt|\$interval)`;
const FORMATTER =
  "(?:humanize|humanize1024|humanizeDuration|humanizePercentage|humanizeTimestamp|title|toUpper|toLower|stripPort|stripDomain|jsonEscape|quotesEscape|htmlEscape|crlfEscape|pathEscape|queryEscape)";
const PRINT = String.raw`printf "%(?:\.\d{1,2})?[defgsv]"`;
const STAGE = `(?:${FORMATTER}|${PRINT})`;
/** At most three stages: some formatters double what they are given. */
const ACTION = new RegExp(String.raw`\{\{-?\s*(?:${STAGE}\s+)?${VALUE}(?:\s*\|\s*${STAGE}){0,3}\s*-?\}\}`, "g");

/** Undefined when every template in `text` only prints; else what is not allowed, for the user. */
export function whyUnsafeTemplate(text: string): string | undefined {
  const rest = text.replace(ACTION, "");
  const at = rest.indexOf("{{");
  if (at < 0) return undefined;
  const found = rest.slice(at, at + 40);
  return `\`${found}\` is not allowed: templates may print $value, $labels.<name>, $expr, $for or $activeAt, through formatters such as humanize or printf "%.2f"`;
}
