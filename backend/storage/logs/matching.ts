// How the engine matches the regular expressions of a query. It looks at the clock, and at who still waits, between blocks of rows only; and
// it reads whole granules, whatever its block size: 2,048 rows, of 64 KiB each where merges brought large ones together. Invariant:
// between two looks a granule is seen by cheap expressions alone; costly ones see about one MiB.
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { isCostly, MATCHED_BYTES } from "./pattern.ts";

export interface Matching {
  /** The table from which the rows are read, for FROM. */
  readonly from: Sql;
  /** Rows between two looks, as of Ask; undefined: as many as the engine likes. */
  readonly blockRows: number | undefined;
  /** Whether the expression is found in the first MATCHED_BYTES of the text, or is not. */
  readonly found: (text: Sql, pattern: string, isWanted: boolean) => Sql;
}

/** Rows of a granule. */
const GRANULE_ROWS = 2048;
/** So much of each row of a granule a costly expression may see. */
const SHORT_BYTES = 512;
/** What ARRAY JOIN cuts a granule into. Fewer cost more: the engine reads an expression anew for each block. */
const CUT_ROWS = 16;

const LOGS = sql`logs`;

/** Without expressions. */
export const NO_MATCHING: Matching = { from: LOGS, blockRows: undefined, found: wholly };
const WHOLE: Matching = { ...NO_MATCHING, blockRows: GRANULE_ROWS };
const IN_PIECES: Matching = { from: sql`${LOGS} ARRAY JOIN [1] AS at_first`, blockRows: CUT_ROWS, found: inPieces };

/** `patterns`: all of the query. */
export function matchingOf(patterns: readonly string[]): Matching {
  if (patterns.length === 0) return NO_MATCHING;
  return isCostly(patterns) ? IN_PIECES : WHOLE;
}

function wholly(text: Sql, pattern: string, isWanted: boolean): Sql {
  return matched(sql`substring(${text}, 1, ${MATCHED_BYTES})`, pattern, isWanted);
}

/**
 * Rows with short texts are decided before the cut, so that most are never in it. The other half needs a column of the cut: no planner can
 * move it in front.
 */
function inPieces(text: Sql, pattern: string, isWanted: boolean): Sql {
  const [short, long] = [sql`substring(${text}, 1, ${SHORT_BYTES})`, sql`substring(${text}, at_first, ${MATCHED_BYTES})`];
  return sql`(length(${text}) > ${SHORT_BYTES} OR ${matched(short, pattern, isWanted)})
    AND (length(${text}) <= ${SHORT_BYTES} OR ${matched(long, pattern, isWanted)})`;
}

function matched(text: Sql, pattern: string, isWanted: boolean): Sql {
  const found = sql`match(${text}, ${pattern})`;
  return isWanted ? found : sql`NOT ${found}`;
}
