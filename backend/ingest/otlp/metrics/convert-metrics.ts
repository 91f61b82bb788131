// Converts OTLP metrics of either encoding to bodies of exposition text and a list of exemplars, on the calling thread. Invariant: a
// document gives the same text as in the agent, because both use common/otlp-metrics.
import { BodyError } from "../../../../common/otlp-metrics/document.ts";
import { MetricsConverter } from "../../../../common/otlp-metrics/converter.ts";
import { ApiError, type ErrorCode } from "../../../errors.ts";
import { type Exemplar, ExemplarList } from "../../remote-write/exemplar-list.ts";
import { protobufToJson } from "../protobuf/to-json.ts";
import { addOtlpExemplars } from "./otlp-exemplars.ts";

export interface MetricsTask {
  readonly body: Uint8Array;
  /** Default: JSON. */
  readonly encoding?: "protobuf";
}

export interface ConvertedMetrics {
  /** Exposition text, split at line ends; each part has its own buffer. */
  readonly texts: readonly Uint8Array<ArrayBuffer>[];
  readonly exemplars: readonly Exemplar[];
  /** Dropped data points and exemplars by reason. */
  readonly dropped: Readonly<Record<string, number>>;
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
let exemplarList = new ExemplarList();
const drop = (reason: string, count: number): void => void (dropped[reason] = (dropped[reason] ?? 0) + count);
/** One per thread, because it remembers metric names. */
const converter = new MetricsConverter(drop, undefined, (...seen) => addOtlpExemplars(exemplarList, drop, ...seen));

/** Throws malformed_body, invalid_payload or batch_too_large; the latter also if the text exceeds `maxTextBytes`. */
export function convertMetrics({ body, encoding }: MetricsTask, maxTextBytes?: number): ConvertedMetrics {
  const json = encoding === "protobuf" ? protobufToJson("metrics", body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  dropped = {};
  exemplarList = new ExemplarList();
  try {
    const texts = [...converter.convert(json, MAX_TEXT_BYTES, maxTextBytes)].map((text) => new Uint8Array(text));
    return { texts, exemplars: exemplarList.exemplars, dropped };
  } catch (error) {
    if (!(error instanceof BodyError)) throw error;
    throw new ApiError(CODES[error.kind], error.message, { cause: error });
  }
}
