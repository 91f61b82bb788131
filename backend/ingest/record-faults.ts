// Counts the records of one body that are left out because of a fault of their own, on routes without a signature; signed routes refuse the
// body instead. Invariants: a fault of one record never costs another record; what is kept of the faults is bounded, however many records
// have one; it is plain data, so that it can be passed between threads.
import { ApiError } from "../errors.ts";
import { MAX_FAULTS } from "./ingest-limits.ts";

export interface RecordFaults {
  /** Records, spans, points or samples that are left out. */
  leftOut: number;
  /** Faults because of which they are; one of a resource costs several records. */
  found: number;
  /** The record, the field and the reason, of the first of them. */
  readonly first: string[];
  /** Log records that are stored without an invalid id, and the first one. */
  withoutId: number;
  firstId: string;
  /** The first record that was not stored for another reason, by reason. */
  readonly others: Record<string, string>;
}

/** What was not stored of a body, by reason. */
interface NotStored {
  readonly dropped: Readonly<Record<string, number>>;
  readonly faults?: RecordFaults;
}

/** The reason under which they are counted in `/metrics`. */
export const INVALID_RECORD = "invalid_record";
const MAX_NAMED = 3;
const MAX_CHARACTERS = 400;

export function noFaults(): RecordFaults {
  return { leftOut: 0, found: 0, first: [], withoutId: 0, firstId: "", others: {} };
}

/** `what`: path and problem of a field. Throws if a body has too many faults, each of which costs more than a good record. */
export function leaveOut(faults: RecordFaults, count: number, what: () => string): void {
  faults.leftOut += count;
  faults.found += 1;
  if (faults.found > MAX_FAULTS)
    throw new ApiError("invalid_payload", `nothing was stored, more than ${MAX_FAULTS} records are invalid: ${listed(faults)}`);
  if (faults.first.length < MAX_NAMED) faults.first.push(what().slice(0, MAX_CHARACTERS));
}

export function addCounts(dropped: NotStored["dropped"], more: NotStored["dropped"]): Record<string, number> {
  const sum = { ...dropped };
  for (const [reason, count] of Object.entries(more)) sum[reason] = (sum[reason] ?? 0) + count;
  return sum;
}

export function keepWithoutId(faults: RecordFaults, what: () => string): void {
  faults.withoutId += 1;
  if (faults.withoutId === 1) faults.firstId = what();
}

/** The result fields of a body with these faults, next to what was dropped for other reasons. */
export function withFaults(dropped: NotStored["dropped"], faults: RecordFaults | undefined): NotStored {
  if (!faults || faults.leftOut + faults.withoutId + Object.keys(faults.others).length === 0) return { dropped };
  return { dropped: faults.leftOut === 0 ? dropped : { ...dropped, [INVALID_RECORD]: faults.leftOut }, faults };
}

/** Throws if no record of a body is usable: then the sender gets an error instead of a partial success. */
export function requireUsable({ accepted, dropped, faults }: NotStored & { readonly accepted: number }): void {
  if (accepted > 0 || !faults || faults.leftOut === 0 || Object.keys(dropped).some((reason) => reason !== INVALID_RECORD)) return;
  const { leftOut } = faults;
  throw new ApiError(
    "invalid_payload",
    leftOut === 1 ? listed(faults) : `nothing was stored, ${leftOut} records are invalid: ${listed(faults)}`,
  );
}

/** Throws if a record of a body is invalid, as on signed routes, whose answer has no place for a partial success. */
export function requireNoFaults(faults: RecordFaults | undefined): void {
  if (!faults || faults.leftOut + faults.withoutId === 0) return;
  throw new ApiError("invalid_payload", faults.leftOut > 0 ? listed(faults) : faults.firstId);
}

/** What a sender of OTLP or Loki's push can do about dropped records, by reason. */
export const ADVICE: Readonly<Record<string, string>> = {
  delta: "delta: set the sender's temporality to cumulative, or add the processor deltatocumulative to its collector",
  duplicate_series: "duplicate_series: another metric of the resource has this name and these attributes; rename one of them with a view",
  bad_time: "bad_time: must be nanoseconds since 1970",
  before_retention: "before_retention: older than the retention",
  too_old: "too_old: older than the retention; a time in seconds or milliseconds instead of nanoseconds is one of 1970",
  too_far_ahead: "too_far_ahead: set the sender's clock",
};

/** `3 too_old; 1 invalid_record (timeseries[4].labels[0].name: must not be empty)`; `advice` explains reasons to the sender. */
export function notStored({ dropped, faults }: NotStored, advice: Readonly<Record<string, string>>): string {
  const text = Object.entries(dropped).map(([reason, count]) => {
    const named = reason === INVALID_RECORD && faults ? listed(faults) : faults?.others[reason];
    return `${count} ${advice[reason] ?? reason}${named === undefined ? "" : ` (${named})`}`;
  });
  return text.join("; ");
}

function listed({ leftOut, first }: RecordFaults): string {
  return `${first.join("; ")}${leftOut > first.length ? "; …" : ""}`;
}
