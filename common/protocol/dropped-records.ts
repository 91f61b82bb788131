// The header by which the backend reports records that a stored OTLP/protobuf body contained and that it dropped, by reason. A 204 has no
// body, and the sender is the only one who can correct them.
export const DROPPED_RECORDS_HEADER = "x-dropped-records";

const MAX_REASONS = 32;
const REASON = /^([a-z_]{1,40})=(\d{1,9})$/;

/** `delta=3, bad_time=1` */
export function formatDroppedRecords(dropped: Readonly<Record<string, number>>): string {
  return Object.entries(dropped)
    .map(([reason, count]) => `${reason}=${count}`)
    .join(", ");
}

/** Parts that are not written by `formatDroppedRecords` are ignored. */
export function parseDroppedRecords(header: string | undefined): [reason: string, count: number][] {
  const parts = (header ?? "").split(", ", MAX_REASONS).map((part) => REASON.exec(part));
  return parts.flatMap((match) => (match ? [[match[1] as string, Number(match[2])]] : []));
}
