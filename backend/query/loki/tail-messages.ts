// Rows of a tail as Loki's messages, {streams, dropped_entries}. Invariant: a record that a stage drops is not sent; a message that would be
// empty is not sent either; a pull has the time to compute that a query has.
import type { LogRow } from "../../storage/logs/store.ts";
import { collectStreams } from "./answers.ts";
import type { Budget } from "./budget.ts";
import { EntryMaker } from "./entry-maker.ts";
import { pipelineOf } from "./pipeline.ts";
import type { Stage } from "./syntax.ts";

/** `rows`: in JSON; undefined: records were left out. Throws ApiError query_too_expensive. */
export async function messageOf(stages: readonly Stage[], rows: readonly (string | undefined)[], budget: Budget): Promise<string> {
  const passes = pipelineOf(stages);
  const entries = new EntryMaker();
  const streams = collectStreams(false);
  let dropped = 0;
  for (const row of rows) {
    if (budget.isDue) await budget.breathe();
    if (row === undefined) {
      dropped += 1;
      continue;
    }
    const { timestamp, message, scope, ...rest } = JSON.parse(row) as LogRow;
    const entry = entries.of({ ...rest, ns: nanosecondsOf(timestamp), line: message, scope_name: scope });
    if (passes(entry)) streams.add(entry);
  }
  const result = streams.result();
  if (result.length === 0 && dropped === 0) return "";
  // What was left out has no time and no labels that are known.
  const none = dropped > 0 ? [{ timestamp: "0", labels: {} }] : null;
  return JSON.stringify({ streams: result, dropped_entries: none });
}

/** Of RFC 3339 with nine digits. */
function nanosecondsOf(timestamp: string): string {
  const [second = "", fraction = ""] = timestamp.replace("Z", "").split(".");
  return String(BigInt(Date.parse(`${second}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, "0")));
}
