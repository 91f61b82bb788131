// Encodes log records as an ExportLogsServiceRequest in protobuf, for log databases without OTLP/JSON. It supports only what the benchmark
// sends: texts as attributes and bodies, times and severities.

/** Field numbers of opentelemetry/proto/logs/v1/logs.proto and common.proto. */
const [LEN, FIXED64, VARINT] = [2, 1, 0];

export interface ProtobufRecord {
  readonly timeNs: bigint;
  /** A line of a file has none. */
  readonly severity?: { readonly number: number; readonly text: string };
  readonly message: string;
  readonly attributes: Readonly<Record<string, string>>;
}

export function logsInProtobuf(resource: Readonly<Record<string, string>>, records: readonly ProtobufRecord[], scopeName = ""): Buffer {
  const scopeLogs = Buffer.concat([field(1, text(1, scopeName)), ...records.map((record) => field(2, encodeRecord(record)))]);
  const resourceLogs = Buffer.concat([field(1, encodeAttributes(1, resource)), field(2, scopeLogs)]);
  return field(1, resourceLogs);
}

function encodeRecord({ timeNs, severity, message, attributes }: ProtobufRecord): Buffer {
  const time = Buffer.alloc(9);
  time[0] = (1 << 3) | FIXED64;
  time.writeBigUInt64LE(timeNs, 1);
  const level = severity ? [Buffer.from([(2 << 3) | VARINT, severity.number]), text(3, severity.text)] : [];
  return Buffer.concat([time, ...level, field(5, text(1, message)), encodeAttributes(6, attributes)]);
}

function encodeAttributes(number: number, attributes: Readonly<Record<string, string>>): Buffer {
  return Buffer.concat(
    Object.entries(attributes).map(([key, value]) => field(number, Buffer.concat([text(1, key), field(2, text(1, value))]))),
  );
}

function text(number: number, value: string): Buffer {
  return field(number, Buffer.from(value));
}

function field(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | LEN]), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80);
  return Buffer.from([...bytes, rest]);
}
