// Loki push requests as protobuf, for tests.
import { bytesField, varint } from "../otlp/protobuf/encode.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";

export interface PushStream {
  readonly stream: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [time: string, line: string, metadata?: Readonly<Record<string, string>>])[];
}

export function encodePush(streams: readonly PushStream[]): Buffer {
  return Buffer.concat(streams.map((stream) => bytesField(1, encodeStream(stream))));
}

export function pushBody(streams: readonly PushStream[]): Buffer<ArrayBuffer> {
  return compressSnappy(encodePush(streams));
}

function encodeStream({ stream, values }: PushStream): Buffer {
  const labels = Object.entries(stream).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const entries = values.map(([time, line, metadata = {}]) => {
    const nanoseconds = BigInt(time);
    const timestamp = Buffer.concat([number(1, nanoseconds / 1_000_000_000n), number(2, nanoseconds % 1_000_000_000n)]);
    const pairs = Object.entries(metadata).map(([name, value]) =>
      bytesField(3, Buffer.concat([bytesField(1, Buffer.from(name)), bytesField(2, Buffer.from(value))])),
    );
    return bytesField(2, Buffer.concat([bytesField(1, timestamp), bytesField(2, Buffer.from(line)), ...pairs]));
  });
  return Buffer.concat([bytesField(1, Buffer.from(`{${labels.join(", ")}}`)), ...entries]);
}

function number(field: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt(field << 3)), varint(value)]);
}
