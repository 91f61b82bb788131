// The result of a `diagnose` check. Invariant: every finding that is not ok has advice.

export interface Finding {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail" | "skipped";
  readonly detail: string;
  /** What to do. */
  readonly advice?: string;
}

/** A failure is returned as a finding. */
export type Check = () => Promise<Finding[]>;

/** An error that covers several addresses has only a code, no message. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || (codeOf(error) ?? error.name) : String(error);
}

/** Returns the code of the error or of its cause. */
export function codeOf(error: unknown): string | undefined {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  const anyCode = code ?? cause?.code;
  return typeof anyCode === "string" ? anyCode : undefined;
}

/** Returns why a certificate was rejected; undefined if the error has another cause. */
export function certificateProblem(error: unknown): "expired" | "other name" | "unknown authority" | undefined {
  const code = codeOf(error) ?? "";
  if (/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/.test(code)) return "expired";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return "other name";
  return /CERT|SIGNED|UNABLE_TO/.test(code) ? "unknown authority" : undefined;
}
