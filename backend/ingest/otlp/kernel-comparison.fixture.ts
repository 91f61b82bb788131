// Compares the kernel with the TypeScript decoder: of a body that the kernel takes, both must make the same rows.
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { KERNEL_LIMITS } from "./decode-body.ts";
import { Kernel, KERNEL_FILE } from "./fast-decode.ts";
import { decodeSlowPath } from "./otlp-body.fixture.ts";
import { protobufToJson } from "./protobuf/to-json.ts";
import type { Signal } from "./random-documents.fixture.ts";
import type { DecodedBody, RowContext } from "./decoded-rows.ts";

export function openComparison(encoding: "json" | "protobuf", context: RowContext) {
  const kernel = new Kernel(readFileSync(KERNEL_FILE));
  const isJson = encoding === "json";

  function fast(signal: Signal, bytes: Uint8Array): DecodedBody | undefined {
    const rows = kernel.read(signal, isJson ? { bytes } : { encoding: "protobuf", bytes }, context, KERNEL_LIMITS);
    const decoded = rows?.take(context.bodyHash);
    if (decoded) expect(rows?.byteLength).toBeGreaterThanOrEqual(decoded.sections.reduce((sum, { bytes }) => sum + bytes.byteLength, 0));
    return decoded;
  }

  /** Returns whether the kernel accepted the body. Throws if its rows differ from those of the TypeScript decoder. */
  function compare(signal: Signal, body: Buffer, what: string): boolean {
    const decoded = fast(signal, Buffer.from(body));
    if (!decoded) return false;
    const named = (): string => `${what}: ${body.toString(isJson ? "utf8" : "hex").slice(0, 5000)}`;
    let expected: DecodedBody;
    try {
      expected = decodeSlowPath({ signal, body: isJson ? body : protobufToJson(signal, body), context });
    } catch (error) {
      // Nothing is made of it: the decoder asks the other one about a body without records.
      if (decoded.accepted === 0 && Object.keys(decoded.dropped).length === 0) return false;
      throw new Error(`the kernel accepted a body that the other decoder rejects, ${named()}`, { cause: error });
    }
    const isSame = decoded.sections.every(
      ({ bytes }, index) => Buffer.compare(bytes, expected.sections[index]?.bytes ?? Buffer.alloc(0)) === 0,
    );
    expect(isSame, named()).toBe(true);
    expect(withoutBytes(decoded), named()).toEqual(withoutBytes(expected));
    return true;
  }

  return { kernel, fast, compare };
}

/** The fields other than the bytes, which are compared before. */
function withoutBytes(decoded: DecodedBody) {
  return { ...decoded, sections: decoded.sections.map((section) => ({ ...section, bytes: 0 })) };
}
