// What a check of `diagnose` answers. Invariant: every finding that is not ok says what to do.

export interface Finding {
  readonly name: string;
  readonly verdict: "ok" | "warn" | "fail" | "skipped";
  readonly detail: string;
  /** What to do. */
  readonly advice?: string;
}

/** Never rejects: what goes wrong is a finding. */
export type Check = () => Promise<Finding[]>;

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
