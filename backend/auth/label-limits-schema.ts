// The limits of a reader to values of labels, as requests set them and responses show them.
import { type LabelLimits, LIMITED_LABELS, readLabelLimits, writeLabelLimits } from "../admission/limited-labels.ts";
import { closedSchema, invalidField, nameSchema } from "../http/schemas.ts";
import type { Role } from "../http/request-identity.ts";
import { MAX_LABEL_LIMIT_VALUES, MAX_LABEL_LIMITS_BYTES } from "./auth-limits.ts";

const VALUES = {
  type: "array",
  minItems: 1,
  maxItems: MAX_LABEL_LIMIT_VALUES,
  items: nameSchema(200),
  description: "exact values; at least one",
} as const;

export const LABEL_LIMITS_SCHEMA = {
  ...closedSchema([], Object.fromEntries(LIMITED_LABELS.map((label) => [label, VALUES]))),
  type: ["object", "null"],
  minProperties: 1,
  description:
    "only telemetry with one of these values for each label is visible; telemetry without a label is not; `source` is service.name; null: no limits",
} as const;

/** The limits of a request as they are stored. Throws `invalid_field` if they are too long. */
export function storedLimits(limits: LabelLimits | null | undefined): string | null {
  const text = writeLabelLimits(limits);
  if (text !== null && Buffer.byteLength(text) > MAX_LABEL_LIMITS_BYTES)
    throw invalidField("label_limits", `all labels and values together have at most ${MAX_LABEL_LIMITS_BYTES} bytes`);
  return text;
}

interface LimitedRow {
  readonly label_limits: string | null;
}

export function shownLimits({ label_limits }: LimitedRow): LabelLimits | null {
  return readLabelLimits(label_limits) ?? null;
}

/** For an entry of the audit log; nothing without limits. */
export function auditedLimits({ label_limits }: LimitedRow): { readonly label_limits?: string } {
  return label_limits === null ? {} : { label_limits };
}

/** Throws `invalid_field`: administrators see and change all of the organisation. */
export function requireViewer(role: Role, { label_limits }: LimitedRow): void {
  if (role !== "viewer" && label_limits !== null)
    throw invalidField("label_limits", `only viewers can have limits; for the role ${role}, remove them first`);
}
