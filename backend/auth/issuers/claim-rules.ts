// The rules of a trusted issuer: which claims of a token permit what. Invariants: every rule requires at least one claim with a value that
// is not only `*`, so no rule permits all tokens of a public issuer; a claim that is missing or no text, number or boolean matches nothing.
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { closedSchema, invalidField, nameSchema } from "../../http/schemas.ts";
import { LABEL_LIMITS_SCHEMA, storedLimits } from "../label-limits-schema.ts";
import { MAX_CLAIM_LENGTH, MAX_ISSUER_RULES, MAX_RULE_CLAIMS } from "../auth-limits.ts";

export const PERMISSIONS = ["enrol_cluster", "enrol_host", "send", "read"] as const;
export type Permission = (typeof PERMISSIONS)[number];
export const SIGNALS = ["metrics", "logs", "traces"] as const;
export type Claims = Readonly<Record<string, unknown>>;

export interface IssuerRule {
  /** Claim → pattern; all must match. */
  readonly claims: Readonly<Record<string, string>>;
  readonly permit: Permission;
  /** The name of the cluster or host, or the `node` of the data. */
  readonly name?: string;
  /** The claim with that name. */
  readonly name_claim?: string;
  readonly signals?: readonly (typeof SIGNALS)[number][];
  readonly bytes_per_second?: number;
  readonly records_per_second?: number;
  readonly label_limits?: LabelLimits | null;
}

const CLAIM = nameSchema(200);
const RATE = { type: "integer", minimum: 0, maximum: 1e15 } as const;

export const RULES_SCHEMA = {
  type: "array",
  minItems: 1,
  maxItems: MAX_ISSUER_RULES,
  items: closedSchema(["claims", "permit"], {
    claims: {
      type: "object",
      minProperties: 1,
      maxProperties: MAX_RULE_CLAIMS,
      propertyNames: CLAIM,
      additionalProperties: nameSchema(MAX_CLAIM_LENGTH),
      description: "claim → text, in which `*` matches any characters; a path such as kubernetes.io/namespace names a claim inside another",
    },
    permit: { enum: PERMISSIONS },
    name: { ...nameSchema(200), description: "name of the cluster or host; `node` of data that is sent, by default the claim `sub`" },
    name_claim: { ...CLAIM, description: "the claim with that name; a rule that enrols clusters needs one of name and name_claim" },
    signals: { type: "array", minItems: 1, uniqueItems: true, items: { enum: SIGNALS }, description: "to send; all three by default" },
    bytes_per_second: { ...RATE, description: "to send: limit per subject and signal; 0, the default: only the organisation's limit" },
    records_per_second: { ...RATE, description: "to send: limit per subject and signal; 0, the default: only the organisation's limit" },
    label_limits: { ...LABEL_LIMITS_SCHEMA, description: `to read: ${LABEL_LIMITS_SCHEMA.description}` },
  }),
} as const;

/** Claims that all tokens of an issuer for this backend share, or that change with each token. */
const SHARED_CLAIMS = new Set(["iss", "aud", "exp", "iat", "nbf", "jti"]);

/** Throws `invalid_field` for rules that the schema accepts, but that make no sense. */
export function checkRules(rules: readonly IssuerRule[]): void {
  for (const [index, rule] of rules.entries()) {
    const problem = findProblem(rule);
    storedLimits(rule.label_limits);
    if (problem) throw invalidField(`rules[${index}].${problem[0]}`, problem[1]);
  }
}

function findProblem({
  claims,
  permit,
  name,
  name_claim,
  label_limits,
  ...sending
}: IssuerRule): [field: string, reason: string] | undefined {
  if (!Object.entries(claims).some(([claim, pattern]) => !SHARED_CLAIMS.has(claim) && /[^*]/.test(pattern)))
    return ["claims", "needs a value that is not only `*`, of a claim that distinguishes the subjects of the issuer, such as sub"];
  const crowded = Object.entries(claims).find(([, pattern]) => pattern.split("*").length > 9);
  if (crowded) return [`claims.${crowded[0]}`, "at most 8 `*`"];
  if (name !== undefined && name_claim !== undefined) return ["name_claim", "set either name or name_claim"];
  if (permit === "enrol_cluster" && name === undefined && name_claim === undefined)
    return ["name", "a rule that enrols clusters needs name or name_claim"];
  if (permit === "read" && (name !== undefined || name_claim !== undefined)) return ["name", "a rule that permits to read has no name"];
  if (permit !== "read" && label_limits) return ["label_limits", `only for a rule that permits to read, not ${permit}`];
  if (permit !== "send" && Object.keys(sending).length > 0)
    return [Object.keys(sending)[0] ?? "", `only for a rule that permits to send, not ${permit}`];
  return undefined;
}

/** A rule that takes a name from a claim does not match a token without that claim. */
export function matchesRule({ claims: patterns, name_claim }: IssuerRule, claims: Claims): boolean {
  if (name_claim !== undefined && readClaim(claims, name_claim) === undefined) return false;
  return Object.entries(patterns).every(([name, pattern]) => {
    const value = readClaim(claims, name);
    return value !== undefined && matchesPattern(pattern, value);
  });
}

/** The name that the rule gives to the token's owner; undefined if the rule has none, or the token lacks the claim. */
export function ruleName({ name, name_claim }: IssuerRule, claims: Claims): string | undefined {
  return name ?? (name_claim === undefined ? undefined : readClaim(claims, name_claim));
}

/** The text of a claim: of this name, or inside other claims if the name is a path with `/`. */
export function readClaim(claims: Claims, path: string): string | undefined {
  const value = Object.hasOwn(claims, path) ? claims[path] : readInside(claims, path.split("/"));
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return undefined;
  const text = String(value);
  return text.length <= MAX_CLAIM_LENGTH ? text : undefined;
}

function readInside(claims: Claims, [first = "", ...rest]: readonly string[]): unknown {
  const value = Object.hasOwn(claims, first) ? claims[first] : undefined;
  if (rest.length === 0) return value;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? readInside(value as Claims, rest) : undefined;
}

/** `*` matches any characters. Takes time proportional to the text's length for each `*`. */
export function matchesPattern(pattern: string, text: string): boolean {
  const [first = "", ...parts] = pattern.split("*");
  const last = parts.pop();
  if (last === undefined) return text === pattern;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > text.length - last.length) return false;
    at = found + part.length;
  }
  return true;
}
