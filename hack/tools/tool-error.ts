// What fetching a program can end with, and how it tells what it does.
export class ToolError extends Error {
  override readonly name = "ToolError";
}

/** One line about what is going on now. `live`: the next line takes its place; it may come each second. */
export type Progress = (line: string, live?: "live") => void;
