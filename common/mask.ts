// Masks secrets in text that others wrote: a child process's log, error messages, support bundles. Invariants: JSON stays valid JSON; in
// doubt, text is masked. It is the last line of defence, never the first.

const SECRETS: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  // Keys and tokens with a known prefix.
  [/\b(ak|it)_[A-Za-z0-9_-]{8,}/g, "$1_[redacted]"],
  [/\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]+/g, "$1 [redacted]"],
  // Other schemes, also as Go prints headers: the secret follows the scheme.
  [/(authorization(?:\\?["'])?\s*[:=]\s*\[?(?:\\?["'])?)\w[\w-]* +[^[\s"',\]\\}][^"',\]\\}\n]*/gi, "$1[redacted]"],
  [/-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^"'-]*/g, "[redacted]"],
  // User and password in a URL; a password may contain an @.
  [/:\/\/[^\s/"]+@/g, "://[redacted]@"],
];

/** `name: value`, `name=value`, `"name":"value"`, also quoted once more within JSON. */
const NAMED =
  /((?:password|passwd|passphrase|secret|token|(?:api|auth|access|account|private)[_-]?key|authorization)(\\?["'])?\s*[:=]\s*(\\?["'])?)([^\s"',\\}]+)/gi;

export function maskSecrets(text: string): string {
  const masked = SECRETS.reduce((sofar, [pattern, replacement]) => sofar.replace(pattern, replacement), withoutWebTokens(text));
  return masked.replace(NAMED, (all: string, before: string, nameQuote?: string, valueQuote?: string, value = "") =>
    nameQuote !== undefined && valueQuote === undefined && isJson(value) ? all : `${before}[redacted]`,
  );
}

/**
 * Masks JSON Web Tokens, whatever precedes them: `eyJ…` and two more parts. Each character is examined once: a single regular expression
 * would restart at each `eyJ`, and a line of 200 kB full of them blocked the agent for minutes.
 */
function withoutWebTokens(text: string): string {
  return text.includes("eyJ") ? text.replace(/[\w.-]+/g, (run) => (run.includes("eyJ") ? withoutTokensOfRun(run) : run)) : text;
}

function withoutTokensOfRun(run: string): string {
  const parts = run.split(".");
  const masked: string[] = [];
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] ?? "";
    const at = part.search(/\beyJ[\w-]/);
    const isToken = at >= 0 && parts[i + 1] && parts[i + 2];
    masked.push(isToken ? `${part.slice(0, at)}[redacted]` : part);
    if (isToken) i += 2;
  }
  return masked.join(".");
}

/** A number, a literal, or the beginning of an object or a list: not a secret, and replacing it with text would break the JSON. */
function isJson(value: string): boolean {
  return /^(?:[[{].*|(?:true|false|null|-?\d[\d.eE+-]*)\]*)$/.test(value);
}
