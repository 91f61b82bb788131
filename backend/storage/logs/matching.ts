// Decides how the engine matches the regular expressions of a query. The engine checks its deadline and whether the client is still
// connected only between blocks of rows, and it reads whole granules whatever its block size: 2,048 rows, of 64 KiB each if merges brought
// large rows together. Invariant: between two checks, only cheap expressions see a whole granule; costly ones see about 1 MiB.
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { isCostly, MATCHED_BYTES } from "./pattern.ts";

export interface Matching {
  /** The FROM clause from which the rows are read. */
  readonly from: Sql;
  /** Rows between two checks, as in Ask; undefined: the engine's own block size. */
  readonly blockRows: number | undefined;
  /** A condition that the expression matches the first MATCHED_BYTES of the text or, if `isWanted` is false, that it does not. */
  readonly matchPattern: (text: Sql, pattern: string, isWanted: boolean) => Sql;
}

/** Rows of a granule. */
const GRANULE_ROWS = 2048;
/** Maximum bytes of each row of a granule that a costly expression reads. */
const SHORT_BYTES = 512;
/** Rows of the blocks into which ARRAY JOIN splits a granule. Smaller ones cost more: the expression is compiled again for each. */
const CUT_ROWS = 16;

const LOGS = sql`logs`;

/** For queries without regular expressions. */
export const NO_MATCHING: Matching = { from: LOGS, blockRows: undefined, matchPattern: matchAtOnce };
const WHOLE: Matching = { ...NO_MATCHING, blockRows: GRANULE_ROWS };
const IN_PIECES: Matching = { from: sql`${LOGS} ARRAY JOIN [1] AS at_first`, blockRows: CUT_ROWS, matchPattern: matchInPieces };

/** `patterns`: all regular expressions of the query. */
export function matchingOf(patterns: readonly string[]): Matching {
  if (patterns.length === 0) return NO_MATCHING;
  return isCostly(patterns) ? IN_PIECES : WHOLE;
}

function matchAtOnce(text: Sql, pattern: string, isWanted: boolean): Sql {
  return matchSql(sql`substring(${text}, 1, ${MATCHED_BYTES})`, pattern, isWanted);
}

/**
 * Rows with short texts are decided before the split, so most rows never reach it. The condition on long texts uses a column of the ARRAY
 * JOIN, so no planner can move it in front.
 */
function matchInPieces(text: Sql, pattern: string, isWanted: boolean): Sql {
  const [short, long] = [sql`substring(${text}, 1, ${SHORT_BYTES})`, sql`substring(${text}, at_first, ${MATCHED_BYTES})`];
  return sql`(length(${text}) > ${SHORT_BYTES} OR ${matchSql(short, pattern, isWanted)})
    AND (length(${text}) <= ${SHORT_BYTES} OR ${matchSql(long, pattern, isWanted)})`;
}

function matchSql(text: Sql, pattern: string, isWanted: boolean): Sql {
  const matches = sql`match(${text}, ${pattern})`;
  return isWanted ? matches : sql`NOT ${matches}`;
}
