// The messages between the backend and a sandbox process. Invariant: a process has one job at a time, and a job one statement at a time, so
// that at most one block of rows is under way to it.
import { sql } from "../../engines/clickhouse/sql.ts";
import type { ErrorCode } from "../../errors.ts";

export type ToSandbox =
  | { readonly type: "run"; readonly job: unknown }
  | { readonly type: "rows"; readonly piece: Uint8Array; readonly isLast: boolean }
  | { readonly type: "error"; readonly error: SentError }
  | { readonly type: "abort" };

export type FromSandbox =
  | { readonly type: "ready" }
  | ({ readonly type: "ask" } & Question)
  | { readonly type: "answer"; readonly answer: Uint8Array }
  | { readonly type: "error"; readonly error: SentError };

/** The arguments of `Ask` (engines/clickhouse/client.ts). */
export interface Question {
  readonly statement: string;
  readonly maxResultBytes: number | undefined;
  readonly blockRows: number | undefined;
  readonly groupLimit: number | undefined;
}

export interface SentError {
  readonly code: ErrorCode;
  readonly message: string;
  /** The rows of a statement exceed its limit. */
  readonly isTooLarge?: boolean;
  /** What the engine reported. */
  readonly cause?: { readonly code?: string | undefined; readonly message: string };
  /** The backend sent this error for a statement, and keeps the original under this number. */
  readonly original?: number | undefined;
}

/** What a sandbox process knows of the organisation. The backend puts the real id in its place. */
export const ORGANISATION = "@organisation";
const MARKED_CONDITION = sql`org_id = ${ORGANISATION}`.text;

/** The statement for this organisation. Throws when the statement does not ask for it. */
export function bindOrganisation(statement: string, orgId: string): string {
  // A text of the query cannot look like this: its quotes are escaped.
  if (!statement.includes(MARKED_CONDITION)) throw new Error("a sandbox process sent a statement without its organisation");
  return statement.replaceAll(MARKED_CONDITION, () => sql`org_id = ${orgId}`.text);
}
