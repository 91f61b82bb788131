// Rows of a tail as Loki's messages, {streams, dropped_entries}. Invariant: a record that a stage drops is not told; a message that would be
// empty is none.
import type { LogRow } from "../logs/store.ts";
import type { TailForm } from "../logs/tail-stream.ts";
import type { TailEvent } from "../logs/tail.ts";
import { collectStreams } from "./answers.ts";
import { pipelineOf } from "./pipeline.ts";
import { EntryMaker } from "./entry-maker.ts";
import type { Stage } from "./syntax.ts";

export function messagesOf(stages: readonly Stage[]): TailForm {
  const passes = pipelineOf(stages);
  const entries = new EntryMaker();
  const events = (given: readonly TailEvent[]): string => {
    const streams = collectStreams(false);
    let dropped = 0;
    for (const { row } of given) {
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
    // What was left out has no time and no labels that anybody knows of.
    const none = dropped > 0 ? [{ timestamp: "0", labels: {} }] : null;
    return JSON.stringify({ streams: result, dropped_entries: none });
  };
  return { begin: events, events, comment: "", failed: ({ code, message }) => JSON.stringify({ streams: [], error: code, message }) };
}

/** Of RFC 3339 with nine digits. */
function nanosecondsOf(timestamp: string): string {
  const [second = "", fraction = ""] = timestamp.replace("Z", "").split(".");
  return String(BigInt(Date.parse(`${second}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, "0")));
}
