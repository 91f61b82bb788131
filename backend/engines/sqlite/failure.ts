// Failures of SQLite under the codes that PostgreSQL gives the same ones, so that whoever judges one knows a single list. Invariant: a
// failure holds the engine's words and nothing that was bound to the statement.
/** SQLite's extended result code, or its lowest byte, which is the primary one → SQLSTATE. */
const SQLSTATE: Record<number, string> = {
  // SQLITE_CONSTRAINT_PRIMARYKEY, _UNIQUE, _ROWID
  1555: "23505",
  2067: "23505",
  2579: "23505",
  // SQLITE_CONSTRAINT_FOREIGNKEY, _NOTNULL, _CHECK
  787: "23503",
  1299: "23502",
  275: "23514",
  // SQLITE_BUSY: another process holds the file
  5: "55P03",
  // SQLITE_NOMEM, _FULL
  7: "53200",
  13: "53100",
  // SQLITE_READONLY, _IOERR, _CANTOPEN, _PROTOCOL: the disk
  8: "58030",
  10: "58030",
  14: "58030",
  15: "58030",
  // SQLITE_CORRUPT, _NOTADB
  11: "XX001",
  26: "XX001",
};

/** The store's thread is gone. */
export const THREAD_LOST = "08006";
/** It does not answer in time. */
export const TOO_LONG = "57014";
/** Others hold the store for too long. */
export const NO_TURN = "55P03";

/** `code` is a SQLSTATE where there is one for it. */
export class SqliteFailure extends Error {
  override readonly name = "SqliteFailure";
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** `errcode` as node:sqlite tells it. */
export function sqlstateOf(errcode: number | undefined): string | undefined {
  return errcode === undefined ? undefined : (SQLSTATE[errcode] ?? SQLSTATE[errcode & 0xff]);
}

/** A write that the disk refused: what the thread holds of the file is not to be trusted. */
export function isDiskFailure(errcode: number | undefined): boolean {
  return errcode !== undefined && (errcode & 0xff) === 10;
}
