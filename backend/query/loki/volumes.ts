// Computes the bytes of messages per label set or per label name, in total or per step. Invariant: all records count, and the
// number of points is checked before anything is read.
import { createParameterError } from "../../errors.ts";
import { commaList, sql } from "../../engines/clickhouse/sql.ts";
import { MAX_VOLUME_POINTS } from "../query-limits.ts";
import { encodeResult, seconds } from "./answers.ts";
import { LabelSet } from "./entry.ts";
import { recordsIn, streamsOf } from "./label-queries.ts";
import { findKeys, labelValue } from "./label-sql.ts";
import type { Steps } from "./parameters.ts";
import type { QueryContext, Selected } from "./range-points.ts";

interface VolumeRequest extends Selected {
  readonly limit: number;
  /** The labels to group by; none: those of the selector. */
  readonly labels: readonly string[];
}

/** Bytes per label set, the largest first. */
export async function volume(context: QueryContext, request: VolumeRequest): Promise<Buffer> {
  return vectorOf(request, await readVolumes(context, request, undefined));
}

/** Bytes per label name, the largest first: all bytes of the streams that have the label. */
export async function volumePerLabelName(context: QueryContext, request: VolumeRequest): Promise<Buffer> {
  const bytesOf = new Map<string, number>();
  const names = namesOf(request);
  for (const { labels, bytes } of await streamsOf(context, request))
    for (const [name] of labels.entries)
      if (names.length === 0 || names.includes(name)) bytesOf.set(name, (bytesOf.get(name) ?? 0) + bytes);
  const sorted = [...bytesOf].sort(([a, bytesOfA], [b, bytesOfB]) => bytesOfB - bytesOfA || (a < b ? -1 : 1)).slice(0, request.limit);
  const volumes = sorted.map(([name, bytes]) => ({ labels: { [name]: "" }, bytes }));
  return vectorOf(request, volumes);
}

/** Bytes per step and label set; the time of a point is the end of its step, as in Loki. Throws invalid_parameter. */
export async function volumeRange(context: QueryContext, request: VolumeRequest, steps: Steps): Promise<Buffer> {
  if (steps.count * request.limit > MAX_VOLUME_POINTS)
    throw createParameterError(
      "step",
      `the steps times the limit exceed ${MAX_VOLUME_POINTS} points: a larger step or a smaller limit is needed`,
    );
  const rows = await readVolumes(context, request, steps.step);
  const { start, end } = request.span;
  const endOf = (step: number): number => {
    const at = start + BigInt(step + 1) * steps.step;
    return seconds(at < end ? at : end);
  };
  const result = rows.map(({ labels, perStep: [indexes, bytes] }) => ({
    metric: labels,
    values: indexes.map((step, index) => [endOf(step), String(bytes[index])]),
  }));
  return encodeResult("matrix", result);
}

interface Volume {
  readonly labels: Record<string, string>;
  readonly bytes: number;
  /** Numbers of the steps, ascending, and the bytes of each. */
  readonly perStep: readonly [steps: readonly number[], bytes: readonly number[]];
}

/** `stepNs`: undefined if there is a single step. */
async function readVolumes(context: QueryContext, request: VolumeRequest, stepNs: bigint | undefined): Promise<Volume[]> {
  const names = namesOf(request);
  const { from, where, blockRows, read } = recordsIn(context, request);
  const keysOf = await findKeys(context.ask, names, { from, where: [where] }, blockRows);
  const values = commaList(["", ...names.map((name) => labelValue(name, keysOf))]);
  const step = stepNs === undefined ? sql`0` : sql`intDiv(toUnixTimestamp64Nano(time) - ${request.span.start}, ${stepNs})`;
  const rows = await read<{ k: string[]; bytes: number; steps: Volume["perStep"] }>(
    sql`SELECT [${values}] AS k, toFloat64(sum(length(message))) AS bytes,
        sumMap([toUInt32(${step})], [toFloat64(length(message))]) AS steps FROM ${from} WHERE ${where}
      GROUP BY k ORDER BY bytes DESC, k LIMIT ${request.limit}`,
  );
  return rows.map(({ k, bytes, steps: perStep }) => {
    const labels = names.map((name, index) => [name, k[index + 1] ?? ""] as const).filter(([, value]) => value !== "");
    return { labels: new LabelSet(labels).toObject(), bytes, perStep };
  });
}

function namesOf({ labels, selectors }: VolumeRequest): readonly string[] {
  return labels.length > 0 ? labels : [...new Set(selectors.flatMap(({ selector }) => selector.map(({ name }) => name)))];
}

function vectorOf({ span }: VolumeRequest, volumes: readonly Pick<Volume, "labels" | "bytes">[]): Buffer {
  const result = volumes.map(({ labels, bytes }) => ({ metric: labels, value: [seconds(span.end), String(bytes)] }));
  return encodeResult("vector", result);
}
