// The option `--limit` of read tokens, users and issuers: values of labels to which a reader is limited.
import { formatLabelLimits, type LabelLimits, parseLabelLimits } from "../client/limited-labels.ts";
import { WrongUsage } from "./cli-error.ts";

export const LIMIT_HELP =
  "limit to exact values of a label: k8s.namespace.name, source (service.name) or deployment.environment.name; repeatable, all must match";

/** `k8s.namespace.name=shop,web` as the field of the API; undefined without limits. Throws WrongUsage. */
export function toLabelLimits(texts: readonly string[]): LabelLimits | undefined {
  try {
    return parseLabelLimits(texts);
  } catch (error) {
    throw new WrongUsage(`--limit ${(error as Error).message}`);
  }
}

/** For a table. */
export function limitsText(limits: unknown): string {
  return formatLabelLimits(limits as LabelLimits | null);
}
