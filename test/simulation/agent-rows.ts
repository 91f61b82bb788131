// Encodes batches of log file lines as the collector does, in OTLP/protobuf, and finds the lines in what the backend gets.

const [VARINT, FIXED64, BYTES] = [0, 1, 2];

/** Each line is unique. */
export function findLines(body: Buffer): string[] {
  return body.toString("latin1").match(/<\d+ \d+>/g) ?? [];
}

interface Batch {
  readonly path: string;
  readonly offset: number;
  readonly lines: readonly string[];
  readonly readAtMs: number;
  /** Number of the collector's start. */
  readonly start: number;
  /** The order of attributes differs each time that a line is read. */
  readonly isReversed: boolean;
}

/** One resource of an ExportLogsServiceRequest. */
export function encodeBatch({ path, offset, lines, readAtMs, start, isReversed }: Batch): Buffer {
  const inOrder = (...parts: Buffer[]): Buffer[] => (isReversed ? parts.toReversed() : parts);
  const resource = [
    ...inOrder(attribute("log.file.path", text(path)), attribute("host.name", text("host"))),
    attribute("atherops.collector_start", field(3, VARINT, varint(start))),
  ];
  const records = lines.map((line, index) => {
    const attributes = inOrder(
      attribute("log.file.record_offset", field(3, VARINT, varint(offset + index))),
      attribute("stream", text("stdout")),
    );
    const observed = Buffer.alloc(8);
    observed.writeBigUInt64LE(BigInt(Math.floor(readAtMs)) * 1_000_000n);
    return message(2, message(5, text(line)), ...attributes.map((each) => message(6, each)), field(11, FIXED64, observed));
  });
  return message(1, message(1, ...resource.map((each) => message(1, each))), message(2, ...records));
}

function attribute(key: string, value: Buffer): Buffer {
  return Buffer.concat([field(1, BYTES, sized(Buffer.from(key))), message(2, value)]);
}

function text(value: string): Buffer {
  return field(1, BYTES, sized(Buffer.from(value)));
}

function message(number: number, ...parts: readonly Buffer[]): Buffer {
  return field(number, BYTES, sized(Buffer.concat(parts)));
}

function sized(bytes: Buffer): Buffer {
  return Buffer.concat([varint(bytes.length), bytes]);
}

function field(number: number, wireType: number | undefined, value: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + (wireType ?? 0)), value]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}
