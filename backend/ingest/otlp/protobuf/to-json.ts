// Converts OTLP/protobuf to OTLP/JSON for the decoders, with the backend's errors: a malformed record is left to them.
import { BodyError } from "../../../../common/otlp-metrics/document.ts";
import { otlpToJson, type ProtobufSignal } from "../../../../common/protobuf/to-json.ts";
import { ApiError } from "../../../errors.ts";
import { unreadableMessage } from "../../json-message.ts";

const malformedPart = (reason: string): string => JSON.stringify(unreadableMessage(reason));

/** Throws `malformed_body` and `batch_too_large`. The result has its own buffer. `readsLines`: see LINES_REQUEST. */
export function protobufToJson(signal: ProtobufSignal, body: Uint8Array, readsLines = false): Buffer<ArrayBuffer> {
  try {
    return otlpToJson(signal, body, { readsLines, malformedPart });
  } catch (error) {
    throw toApiError(error);
  }
}

/** For errors of protobuf readers and JSON writers. */
export function toApiError(error: unknown): unknown {
  if (!(error instanceof BodyError)) return error;
  return new ApiError(error.kind === "too_large" ? "batch_too_large" : "malformed_body", error.message, { cause: error });
}
