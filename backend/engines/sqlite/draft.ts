// A store that is filled under another name. Invariant: `file` is there whole, and on the disk, or not at all; what an interrupted attempt
// left behind is removed by the next.
import { existsSync, rmSync } from "node:fs";
import { renameDurably, syncFile } from "../../../common/files.ts";

/** Calls `fill`, which makes the store under the name that it is given and closes it, and gives that its name. Passes on what it answers. */
export async function underDraftName<T>(file: string, fill: (draft: string) => Promise<T>): Promise<T> {
  // SQLite would take the log of another store for this one's, and write it into it.
  if (existsSync(`${file}-wal`)) throw new Error(`${file}-wal is the log of another store of this name: put it where that store is`);
  const draft = `${file}.moving`;
  for (const ending of ["", "-wal", "-shm"]) rmSync(`${draft}${ending}`, { force: true });
  const answer = await fill(draft);
  syncFile(draft);
  renameDurably(draft, file);
  return answer;
}
