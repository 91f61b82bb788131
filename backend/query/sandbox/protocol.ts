// Defines the messages between the backend and a sandbox process. Invariant: a process has one job at a time, and a job one statement at a
// time, so that at most one block of rows is being transferred.
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

/** The arguments of `Ask` (engines/clickhouse/clickhouse-client.ts). */
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
  /** The engine's error. */
  readonly cause?: { readonly code?: string | undefined; readonly message: string };
  /** Set if the backend sent this error for a statement; the number under which it keeps the original error. */
  readonly original?: number | undefined;
}

/** Placeholder for the organisation in a sandbox process; the backend replaces it by the real id. */
export const ORGANISATION = "@organisation";
const MARKED_CONDITION = sql`org_id = ${ORGANISATION}`.text;

/** The statement for this organisation. Throws if the statement has no condition on it. */
export function bindOrganisation(statement: string, orgId: string): string {
  // A text of the query cannot contain this, because its quotes are escaped.
  if (!statement.includes(MARKED_CONDITION)) throw new Error("a sandbox process sent a statement without its organisation");
  return statement.replaceAll(MARKED_CONDITION, () => sql`org_id = ${orgId}`.text);
}
