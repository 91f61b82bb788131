// Valid protobuf in any form becomes OTLP/JSON, and hostile protobuf is refused with a code, within its limits. That both encodings become the
// same rows and series: same-rows, fast-protobuf and node-metrics.
import { describe, expect, test } from "vitest";
import { ApiError } from "../../../errors.ts";
import { CONTEXT, rowsOf } from "../decoded-rows.fixture.ts";
import { OtlpDecoder } from "../otlp-decoder.ts";
import { Random } from "../random-documents.fixture.ts";
import { bytesField, encodeProtobuf, varint } from "./encode.fixture.ts";
import { protobufToJson } from "./to-json.ts";

describe("protobuf in any valid form", () => {
  const record = encodeRecord({ severityText: "WARN" });
  const inRequest = (...records: Buffer[]): Buffer =>
    bytesField(1, bytesField(2, Buffer.concat(records.map((bytes) => bytesField(2, bytes)))));

  test("skips unknown fields, and accepts repeated fields that are not adjacent", () => {
    const attribute = (key: string) =>
      bytesField(6, Buffer.concat([bytesField(1, Buffer.from(key)), bytesField(2, bytesField(1, Buffer.from("v")))]));
    const body = inRequest(
      Buffer.concat([attribute("a"), varint(BigInt(200 << 3)), varint(5n), bytesField(1000, Buffer.from("?")), record, attribute("b")]),
    );
    expect(JSON.parse(protobufToJson("logs", body).toString())).toEqual({
      resourceLogs: [
        {
          scopeLogs: [
            {
              logRecords: [
                {
                  severityText: "WARN",
                  attributes: [
                    { key: "a", value: { stringValue: "v" } },
                    { key: "b", value: { stringValue: "v" } },
                  ],
                },
              ],
            },
          ],
        },
      ],
    });
  });

  test("an empty body is an empty request", () => {
    expect(protobufToJson("logs", new Uint8Array()).toString()).toBe("{}");
  });

  test("escapes text within its string", () => {
    const text = '"}]}\\\u0000\n\u001f\u2028';
    const json = JSON.parse(protobufToJson("logs", inRequest(encodeRecord({ severityText: text }))).toString());
    expect(json.resourceLogs[0].scopeLogs[0].logRecords).toEqual([{ severityText: text }]);
  });

  const nested = (depth: number): Buffer => {
    let value = bytesField(1, Buffer.from("x"));
    for (let level = 0; level < depth; level += 1) value = bytesField(5, bytesField(1, value));
    return inRequest(bytesField(5, value));
  };

  test.each([
    ["cut off", inRequest(record).subarray(0, -1), "malformed_body"],
    ["a length that is too large", Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07]), "malformed_body"],
    ["a length of 2^64 - 1", Buffer.from([0x0a, ...Array.from({ length: 9 }, () => 0xff), 0x01]), "malformed_body"],
    ["a number without end", Buffer.alloc(64, 0xff), "malformed_body"],
    ["a group", Buffer.from([0x0b, 0x0c]), "malformed_body"],
    ["a field of another type", inRequest(Buffer.from([0x18, 0x01])), "invalid_payload"],
    ["JSON", Buffer.from('{"resourceLogs":[]}'), "malformed_body"],
    ["5,000 levels", nested(5000), "invalid_payload"],
    ["a field that no request has", Buffer.from([0x10, 0x01]), "malformed_body"],
    ["text that is not UTF-8", inRequest(bytesField(3, Buffer.from([0xff, 0xfe]))), "malformed_body"],
    ["an id of 3 bytes", inRequest(bytesField(9, Buffer.from([1, 2, 3]))), "invalid_payload"],
    [
      "31 MiB of empty records",
      Buffer.from(bytesField(1, bytesField(2, Buffer.alloc(31 << 20, Buffer.from([0x12, 0]))))),
      "batch_too_large",
    ],
  ])("rejects %s", async (_what, body, code) => {
    await using decoder = new OtlpDecoder();
    using held = decoder.open("org");
    const task = { signal: "logs", body: new Uint8Array(body), encoding: "protobuf", context: CONTEXT } as const;
    const refused = await Promise.try(() => decoder.decode(task, held)).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ code });
  });

  test("accepts 40 levels of lists", () => {
    expect(rowsOf("logs", protobufToJson("logs", nested(40)))).toHaveLength(1);
  });
});

function encodeRecord(record: object): Buffer {
  const request = encodeProtobuf("logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] });
  // Three tags and lengths of one byte each precede a small record.
  return request.subarray(6);
}

test("keeps every digit of 64-bit integers", () => {
  const edges = [
    1n,
    9n,
    10n,
    999_999n,
    1_000_000n,
    2n ** 32n - 1n,
    2n ** 32n,
    9_999_999_999_999n,
    10n ** 13n,
    2n ** 53n + 1n,
    10n ** 19n,
    2n ** 64n - 1n,
  ];
  const random = new Random(3);
  const values = [
    ...edges,
    ...Array.from(
      { length: 2000 },
      () => (BigInt(Math.floor(random.next() * 2 ** 32)) * 4_294_967_296n + BigInt(random.below(2 ** 31))) >> BigInt(random.below(60)),
    ),
  ];
  const logRecords = values.map((value) => ({ timeUnixNano: String(value) }));
  const document = { resourceLogs: [{ scopeLogs: [{ logRecords }] }] };
  expect(JSON.parse(protobufToJson("logs", encodeProtobuf("logs", document)).toString())).toEqual(document);
});
