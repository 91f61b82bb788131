// Answers as bytes of JSON.
import { Buffer } from "node:buffer";

export function jsonOf(answer: unknown): Buffer {
  return Buffer.from(JSON.stringify(answer));
}

/** As Loki envelopes most of its answers. */
export function dataOf(data: unknown): Buffer {
  return jsonOf({ status: "success", data });
}
