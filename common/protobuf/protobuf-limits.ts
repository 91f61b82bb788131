// Limits of protobuf bodies.

// protobuf/to-json.ts
/** Size of the OTLP/JSON to which a protobuf body is converted: the backend's limit of a request body. */
export const MAX_PROTOBUF_JSON_BYTES = 32 * 1024 * 1024;
/** Malformed records of a protobuf body that are left out one by one; with more, the body is rejected. */
export const MAX_MALFORMED_PARTS = 1000;
/** Protobuf messages within each other, as in the protobuf libraries of Java and C++; a list within a list takes two. */
export const MAX_PROTOBUF_DEPTH = 100;

// decode-request.ts
/** Messages, and elements of lists of numbers, of a protobuf body that becomes objects; the largest batch of the collector has less than a million. */
export const MAX_PROTOBUF_OBJECTS = 2_000_000;
