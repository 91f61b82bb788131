// Metrics of a node become the same series whichever side converts them: here, from protobuf, or on the node, from OTLP/JSON, as agents did
// that send exposition text. KERNEL_DOCUMENTS=300000 compares as many random documents.
import { expect, test } from "vitest";
import { MetricsConverter } from "../../../../common/otlp-metrics/converter.ts";
import { decodeRequest } from "../../../../common/protobuf/decode-request.ts";
import { metricsDocument } from "../../../../test/fixtures/random-metrics.ts";
import { Random } from "../random-documents.fixture.ts";
import { bytesField, encodeProtobuf } from "../protobuf/encode.fixture.ts";
import { protobufToJson } from "../protobuf/to-json.ts";
import { convertMetrics } from "./convert-metrics.ts";

const DOCUMENTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 1000);
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const MIB = 1024 * 1024;

interface Series {
  readonly lines: string;
  readonly dropped: Readonly<Record<string, number>>;
}

function convertOnNode(json: Buffer): Series {
  const dropped: Record<string, number> = {};
  const converter = new MetricsConverter((reason, points) => (dropped[reason] = (dropped[reason] ?? 0) + points));
  return { lines: Buffer.concat([...converter.convert(json, 32 * MIB)]).toString(), dropped };
}

function convertHere(body: Buffer): Series {
  const { texts, dropped } = convertMetrics({ body, encoding: "protobuf" });
  return { lines: Buffer.concat(texts).toString(), dropped };
}

test("random documents of a collector have the same series and the same dropped points", { timeout: 3_600_000 }, () => {
  let lines = 0;
  for (let index = 0; index < DOCUMENTS; index += 1) {
    // The encoder of this test does not know names of enums.
    const document = metricsDocument(new Random(SEED * 1_000_003 + index)).replaceAll('"AGGREGATION_TEMPORALITY_CUMULATIVE"', "2");
    const json = Buffer.from(document);
    const body = encodeProtobuf("metrics", JSON.parse(document) as object);
    if (body.length === 0) continue;
    const here = convertHere(body);
    lines += here.lines.split("\n").length - 1;
    expect(here, `KERNEL_SEED=${SEED}, document ${index}`).toEqual(convertOnNode(json));
    // The agent converts like this for a backend that does not accept protobuf.
    expect(convertOnNode(protobufToJson("metrics", body))).toEqual(here);
  }
  expect(lines).toBeGreaterThan(5 * DOCUMENTS);
});

test("text that is not UTF-8 is stored with replacement characters, as the collector wrote it in JSON", () => {
  const attributes = [{ key: "a", value: { stringValue: "x\uE123y" } }];
  const gauge = { dataPoints: [{ timeUnixNano: "1763714400123456789", asInt: "1", attributes }] };
  const body = encodeProtobuf("metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m", gauge }] }] }] });
  const at = body.indexOf("\uE123");
  body.fill(0xff, at, at + 3);
  expect(convertHere(body).lines).toBe('m{a="x\uFFFD\uFFFD\uFFFDy"} 1 1763714400123\n');
});

test("rejects a body of more than two million messages, or numbers in lists", () => {
  const tooLarge = expect.objectContaining({ kind: "too_large" });
  const empty = Buffer.alloc(2 * 2_000_001);
  for (let at = 0; at < empty.length; at += 2) empty[at] = 0x0a;
  expect(() => decodeRequest("logs", empty)).toThrow(tooLarge);
  const point = bytesField(1, bytesField(8, bytesField(2, Buffer.alloc(2_000_001))));
  expect(() => decodeRequest("metrics", bytesField(1, bytesField(2, bytesField(2, bytesField(10, point)))))).toThrow(tooLarge);
});
