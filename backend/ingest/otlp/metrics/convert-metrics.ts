// Converts OTLP metrics of either encoding to bodies of exposition text and a list of exemplars, on the calling thread. Invariant: a
// document gives the same text as in the agent, because both use common/otlp-metrics.
import { BodyError, type MetricsDocument, parseDocument } from "../../../../common/otlp-metrics/document.ts";
import { decodeRequest } from "../../../../common/protobuf/decode-request.ts";
import { MetricsConverter } from "../../../../common/otlp-metrics/converter.ts";
import type { KeptTimes } from "../../../../common/otlp-metrics/series-writer.ts";
import { ApiError, type ErrorCode } from "../../../errors.ts";
import { type Exemplar, ExemplarList } from "../../remote-write/exemplar-list.ts";
import { leaveOut, noFaults, type RecordFaults, withFaults } from "../../record-faults.ts";
import { type BatchShape, planBatch } from "../batch.ts";
import { isUnknownField, mayHaveWrongNames, replaceWrongNames } from "../field-names.ts";
import { addOtlpExemplars } from "./otlp-exemplars.ts";

export interface MetricsTask {
  readonly body: Uint8Array;
  /** Default: JSON. */
  readonly encoding?: "protobuf";
  /** Here a point of another time is one lost point; in the text, each of its lines would be one. */
  readonly keptTimes?: KeptTimes;
}

export interface ConvertedMetrics {
  /** Exposition text, split at line ends; each part has its own buffer. */
  readonly texts: readonly Uint8Array<ArrayBuffer>[];
  readonly exemplars: readonly Exemplar[];
  /** Dropped data points and exemplars by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  readonly faults?: RecordFaults;
}

/** Limits a part of the text; a body becomes at most eight parts (common/otlp-metrics). */
const MAX_TEXT_BYTES = 4 * 1024 * 1024;

const CODES: Readonly<Record<BodyError["kind"], ErrorCode>> = {
  malformed: "invalid_payload",
  too_large: "batch_too_large",
  no_room: "unavailable",
  unsupported_encoding: "unsupported_encoding",
};

let dropped: Record<string, number> = {};
let faults = noFaults();
let exemplarList = new ExemplarList();
const drop = (reason: string, count: number): void => void (dropped[reason] = (dropped[reason] ?? 0) + count);
const dropPoints = (reason: string, count: number): void => {
  faults.others[reason] ??= converter.path;
  drop(reason, count);
};
/** One per thread, because it remembers metric names. */
const converter: MetricsConverter = new MetricsConverter(
  dropPoints,
  (...seen) => addOtlpExemplars(exemplarList, drop, ...seen),
  (problem, points) => leaveOut(faults, points, () => `${converter.path}: ${problem}`),
);
const SHAPE: BatchShape = { resources: "resourceMetrics", scopes: "scopeMetrics", records: "metrics" };

function parseNamed(json: Buffer): unknown {
  const document = parseDocument(json, { mayRepeat: isUnknownField });
  const fault = mayHaveWrongNames(json.toString("latin1")) ? replaceWrongNames(document) : undefined;
  if (fault) throw new BodyError("malformed", fault.text);
  return document;
}

/** Leaves out unreadable points. Throws malformed_body, invalid_payload, and batch_too_large, also if the text exceeds `maxTextBytes`. */
export function convertMetrics({ body, encoding, keptTimes }: MetricsTask, maxTextBytes?: number): ConvertedMetrics {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const isProtobuf = encoding === "protobuf";
  dropped = {};
  faults = noFaults();
  exemplarList = new ExemplarList();
  converter.keptTimes = keptTimes;
  try {
    const read = () => (isProtobuf ? decodeRequest("metrics", bytes) : parseNamed(bytes)) as MetricsDocument;
    const converted = converter.convertDocument(read, bytes.length, MAX_TEXT_BYTES, maxTextBytes);
    const texts = [...converted].map((text) => new Uint8Array(text));
    const counts = withFaults(dropped, faults);
    // A success must not mean that nothing was understood.
    if (!isProtobuf && texts.length === 0 && Object.keys(counts.dropped).length === 0) planBatch(bytes, SHAPE, true);
    return { texts, exemplars: exemplarList.exemplars, ...counts };
  } catch (error) {
    if (!(error instanceof BodyError)) throw error;
    if (error.cause instanceof ApiError) throw error.cause;
    // It names the place, as for logs and spans.
    if (error.cause instanceof SyntaxError) planBatch(bytes, SHAPE, true);
    const code = isProtobuf && error.kind === "malformed" ? "malformed_body" : CODES[error.kind];
    throw new ApiError(code, error.message, { cause: error });
  }
}
