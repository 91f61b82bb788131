// What fetching a program can end with, and how it tells what it does. Used by every file of hack/tools and shown by its callers
// without a stack: the message alone says what was tried and what to do.
export class ToolError extends Error {
  override readonly name = "ToolError";
}

/** One line about what is going on now. `live`: the next line takes its place; it may come each second. */
export type Progress = (line: string, live?: "live") => void;
