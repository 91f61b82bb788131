// Converts the exemplars of an OTLP point to those of a series, with the same limits as remote write. Invariant: these limit time and memory,
// however many exemplars a point has. Source: OpenTelemetry specification, compatibility/prometheus_and_openmetrics.md, "Exemplars".
import { attributeText, listOf, type OtlpExemplar, toDigits } from "../../../../common/otlp-metrics/document.ts";
import { labelName } from "../../../../common/otlp-metrics/prometheus-names.ts";
import { numberText, type OnExemplars } from "../../../../common/otlp-metrics/series-writer.ts";
import { MAX_EXEMPLAR_LABEL_BYTES } from "../../ingest-limits.ts";
import type { ExemplarList, LabelPairs } from "../../remote-write/exemplar-list.ts";

/** A label as common/otlp-metrics/series-labels.ts writes it. */
const LABEL = /,?([^=]+)="((?:[^"\\]|\\.)*)"/gy;

/** Adds the exemplars of a point to the list. Calls `drop` for those that are not kept. */
export function addOtlpExemplars(
  list: ExemplarList,
  drop: (reason: string, count: number) => void,
  ...[name, exemplars, labelTextOf]: Parameters<OnExemplars>
): void {
  for (const [index, exemplar] of exemplars.entries()) {
    if (!list.hasRoomFor(0)) return drop("exemplar_limit", exemplars.length - index);
    const read = readExemplar(exemplar);
    if (!read) {
      drop("exemplar_malformed", 1);
      continue;
    }
    const { value, time, labels } = read;
    const labelText = labelTextOf(exemplar);
    const seriesBytes = name.length + Buffer.byteLength(labelText);
    if (!list.hasRoomFor(seriesBytes)) return drop("exemplar_limit", exemplars.length - index);
    const timeMs = Number(time.slice(0, -6));
    list.push({ series: [["__name__", name], ...pairsOf(labelText)], labels, value, timeMs }, seriesBytes + bytesOf(labels));
  }
}

/** Undefined if it is malformed, which must not cost its point. */
function readExemplar(exemplar: OtlpExemplar): { value: string; time: string; labels: LabelPairs } | undefined {
  try {
    const [value, time] = [numberText(exemplar), toDigits(exemplar.timeUnixNano)];
    return value === undefined || time === undefined ? undefined : { value, time, labels: labelsOf(exemplar) };
  } catch {
    return undefined;
  }
}

/** The ids of the span and the filtered attributes; only the ids if all together are too long, as the specification requires. */
function labelsOf({ traceId, spanId, filteredAttributes }: OtlpExemplar): LabelPairs {
  const ids = new Map([...idOf("trace_id", traceId, 32), ...idOf("span_id", spanId, 16)]);
  const attributes = listOf(filteredAttributes).map(({ key = "", value }) => [labelName(key), attributeText(value)] as const);
  const all = [...new Map([...attributes.filter(([name, value]) => name !== "" && value !== ""), ...ids])];
  return bytesOf(all) > MAX_EXEMPLAR_LABEL_BYTES ? [...ids] : all;
}

/** Empty if it is not the id of a span. */
function idOf(name: string, id: unknown, digits: number): LabelPairs {
  const isId = typeof id === "string" && id.length === digits && /^[0-9a-f]+$/i.test(id) && !/^0+$/.test(id);
  return isId ? [[name, id.toLowerCase()]] : [];
}

function pairsOf(labelText: string): LabelPairs {
  return [...labelText.matchAll(LABEL)].map(([, name = "", value = ""]) => {
    return [name, value.replaceAll(/\\(.)/g, (_, character: string) => (character === "n" ? "\n" : character))];
  });
}

function bytesOf(labels: LabelPairs): number {
  return labels.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0);
}
