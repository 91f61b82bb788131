// Converts logs and traces to OTLP/JSON for a backend of the previous release, which does not read protobuf on its signed routes. Raw lines of
// files become records with the text, time and stream of each line; level and trace are missing, because only a newer backend parses them.
// Invariant: the same request becomes the same JSON, so that a repetition is stored once.
import { otlpToJson } from "../../common/protobuf/to-json.ts";

interface RawRecord {
  timeUnixNano?: string;
  body?: { stringValue?: string | { base64: string } };
  attributes?: object[];
}
interface Logs {
  resourceLogs?: { scopeLogs?: { scope?: { name?: string }; logRecords?: RawRecord[] }[] }[];
}

const CRI_LINES = "atherops/cri-lines";
const SCOPES = [CRI_LINES, "atherops/lines"];

/** Throws BodyError. */
export function recordsToJson(signal: "logs" | "traces", body: Buffer): Buffer {
  const json = otlpToJson(signal, body, { readsLines: signal === "logs" });
  if (signal === "traces" || !SCOPES.some((name) => json.includes(name))) return json;
  const document = JSON.parse(json.toString()) as Logs;
  for (const scope of (document.resourceLogs ?? []).flatMap(({ scopeLogs = [] }) => scopeLogs)) {
    const name = scope.scope?.name ?? "";
    if (!SCOPES.includes(name)) continue;
    scope.scope = {};
    scope.logRecords = (scope.logRecords ?? []).map((record) => convertLine(record, name === CRI_LINES));
  }
  return Buffer.from(JSON.stringify(document));
}

function convertLine(record: RawRecord, isCri: boolean): RawRecord {
  const value = record.body?.stringValue;
  if (value === undefined) return record;
  const bytes = typeof value === "string" ? Buffer.from(value) : Buffer.from(value.base64, "base64");
  const line = isCri ? (readDocker(bytes) ?? readCri(bytes)) : undefined;
  if (line === undefined) return { ...record, body: { stringValue: bytes.toString() } };
  const stream = { key: "log.iostream", value: { stringValue: line.stream } };
  return {
    ...record,
    timeUnixNano: record.timeUnixNano ?? toNanoseconds(line.time),
    body: { stringValue: line.text },
    attributes: [...(record.attributes ?? []), stream],
  };
}

interface RuntimeLine {
  readonly time: string;
  readonly stream: string;
  readonly text: string;
}

const PREFIX = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) [^ \n]* ?/;

/** The text of a part may end in the middle of a character, so parts are joined as bytes. */
function readCri(bytes: Buffer): RuntimeLine | undefined {
  const parts = bytes.toString("latin1").split("\n");
  const found = parts.map((part) => PREFIX.exec(part));
  const [first] = found;
  if (!first) return undefined;
  const text = parts.map((part, index) => part.slice(found[index]?.[0].length ?? 0)).join("");
  return { time: first[1] as string, stream: first[2] as string, text: Buffer.from(text, "latin1").toString() };
}

function readDocker(bytes: Buffer): RuntimeLine | undefined {
  if (!bytes.subarray(0, 8).equals(Buffer.from('{"log":"'))) return undefined;
  try {
    const { log, stream, time } = JSON.parse(bytes.toString()) as Record<string, unknown>;
    if (typeof log !== "string" || typeof stream !== "string" || typeof time !== "string") return undefined;
    return { time, stream, text: log.replace(/\n$/, "") };
  } catch {
    // The body stays as it is.
    return undefined;
  }
}

/** Undefined if it is no time. */
function toNanoseconds(time: string): string | undefined {
  const fraction = /\.(\d{1,9})/.exec(time);
  const ms = Date.parse(time.replace(fraction?.[0] ?? "", ""));
  return Number.isNaN(ms) ? undefined : `${ms / 1000}${(fraction?.[1] ?? "").padEnd(9, "0")}`;
}
