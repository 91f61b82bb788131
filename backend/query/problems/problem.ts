// Defines what GET /query/problems returns: what is wrong now, each with one sentence, its cause if known, and the screen to open next.

export const PROBLEM_KINDS = ["agent", "alert", "credential", "disk", "logs", "node", "pod", "resource", "service", "slo"] as const;

export interface Problem {
  readonly kind: (typeof PROBLEM_KINDS)[number];
  readonly severity: "critical" | "warning";
  /** 0 to 100: higher first. */
  readonly score: number;
  /** One sentence. */
  readonly title: string;
  /** The cause, or figures. */
  readonly detail?: string | undefined;
  /** When it began, in Unix milliseconds; undefined if that is not known. */
  readonly sinceMs?: number | undefined;
  /** Label of the link. */
  readonly action: string;
  readonly link: string;
}

export interface Problems {
  readonly problems: readonly Problem[];
  /** How many objects there are, and how many of them have a problem. */
  readonly totals: Readonly<Record<string, readonly [total: number, withProblem: number]>>;
}

export function percent(share: number): string {
  return `${Number((share * 100).toPrecision(2))} %`;
}
