// Lists that the backend answers in pages, read whole.
import { page } from "./api.ts";

export interface Whole<T> {
  readonly rows: T[];
  /** There is more than was read. */
  readonly isCut: boolean;
}

export async function wholeList<T>(path: string, signal: AbortSignal, mostPages = 20): Promise<Whole<T>> {
  const rows: T[] = [];
  let at: string | undefined = path;
  for (let pages = 0; at && pages < mostPages; pages++) {
    const { body, next }: { body: T[]; next: string | undefined } = await page<T[]>(at, { signal });
    rows.push(...body);
    at = next;
  }
  return { rows, isCut: at !== undefined };
}
