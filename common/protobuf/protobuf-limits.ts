// Limits of protobuf bodies.

/** Size of the OTLP/JSON to which a protobuf body of logs or spans, or a Loki push request, is converted. */
export const MAX_PROTOBUF_JSON_BYTES = 32 * 1024 * 1024;
/**
 * @internal Malformed parts of a protobuf body, such as records or series, that are left out one by one; with more, the body is rejected.
 */
export const MAX_MALFORMED_PARTS = 1000;
/** @internal Protobuf messages within each other. */
export const MAX_PROTOBUF_DEPTH = 100;
/** @internal Messages of a protobuf body of metrics, and elements of its lists of numbers. */
export const MAX_PROTOBUF_OBJECTS = 2_000_000;
