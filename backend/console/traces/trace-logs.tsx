// The log records of a trace, below its spans; those of the selected span are marked. Each links to the log explorer.
import { recordAddress } from "../logs/record-address.ts";
import { levelClass } from "../logs/log-histogram.tsx";
import { formatTerm } from "../logs/query-line.ts";
import type { LogRow } from "../logs/log-rows.ts";
import { Problem } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { around, timeText } from "../state/time.ts";

const MAX_ROWS = 200;
/** Characters shown per message. */
const DRAWN = 400;

export interface TraceLogsProps {
  readonly id: string;
  readonly startMs: number;
  readonly durationMs: number;
  readonly spanId: string | undefined;
}

export function TraceLogs({ id, startMs, durationMs, spanId }: TraceLogsProps) {
  const loaded = useLoaded(id, async (signal) => {
    return await call<LogRow[]>("/query/logs", { query: { trace_id: id, order: "oldest", limit: MAX_ROWS }, signal });
  });
  const rows = loaded.value.value ?? [];
  const q = formatTerm({ not: false, name: "trace_id", value: id });
  const range = around(startMs, durationMs);
  return (
    <section class="trace-logs" aria-label="Logs of the trace">
      <h2>
        <a href={address("logs", { q, ...range })}>{counted(rows.length, "log record")}</a>
        {rows.length === MAX_ROWS && <span class="quiet"> (the first ones)</span>}
      </h2>
      <Problem message={loaded.error.value} retry={loaded.reload} />
      {rows.map((row, at) => (
        <a
          key={at}
          class={`line mark ${levelClass(row.level)} ${spanId && row.span_id === spanId ? "is-chosen" : ""}`}
          href={address("logs", { q, ...range, record: recordAddress(row) })}
        >
          <time dateTime={row.timestamp}>{timeText(new Date(row.timestamp))}</time>
          <span class={`level ${levelClass(row.level)}`}>{visible(row.level.slice(0, 8)) || "–"}</span>
          <bdi class="quiet">{visible(row.source.slice(0, 40))}</bdi>
          <bdi dir="ltr" class="message">
            {visible(row.message.slice(0, DRAWN).replace(/\s+/g, " "))}
          </bdi>
        </a>
      ))}
    </section>
  );
}
