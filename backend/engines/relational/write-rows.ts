// Writes rows that were gathered from many requests. Invariant: a row that the store will never take keeps no other row from being written.
const REFUSED_SQLSTATE = /^2[23]/;

/** True when the store will not take what the statement holds, however often it is tried (PostgreSQL documentation, appendix A). */
export function isRefused(error: unknown): boolean {
  return REFUSED_SQLSTATE.test(String((error as { code?: unknown }).code));
}

/**
 * All at once; where the store refuses what one of them holds, each alone. Answers those that it refused. Throws what may be tried again, and
 * then some may be written.
 */
export async function writeRows<T>(rows: readonly T[], write: (rows: readonly T[]) => Promise<unknown>): Promise<T[]> {
  try {
    await write(rows);
    return [];
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  const refused: T[] = [];
  for (const row of rows) {
    await write([row]).catch((error: unknown) => {
      if (!isRefused(error)) throw error;
      refused.push(row);
    });
  }
  return refused;
}
