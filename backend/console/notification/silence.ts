// A silence as the alerting service has it: alerts of which nobody is told for a time.
import type { SilenceMatcher } from "./matcher.ts";

export const SILENCES = "/alerting/silences";

export interface Silence {
  readonly id: string;
  readonly status: { readonly state: "active" | "pending" | "expired" };
  readonly matchers: readonly SilenceMatcher[];
  readonly startsAt: string;
  readonly endsAt: string;
  readonly createdBy: string;
  readonly comment: string;
}
