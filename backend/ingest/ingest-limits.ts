// The limits of backend/ingest/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its name.

// body.ts
/** Size of a request body with telemetry, as sent and decompressed. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;

// exposition/exposition.ts
/** Size of a line of exposition text. */
export const MAX_LINE_BYTES = 256 * 1024;
/** Size of all label names and values of a series. */
export const MAX_SERIES_LABEL_BYTES = 8 * 1024;

// grpc/otlp-service.ts
/** Size of a message of OTLP over gRPC, as it is sent. */
export const MAX_GRPC_MESSAGE_BYTES = 16 * 1024 * 1024;

// loki/push-to-json.ts
/** Streams of a Loki push request. */
export const MAX_STREAMS = 50_000;
/** Labels of a stream. */
export const MAX_LABELS_OF_STREAM = 64;
/** @internal Characters of a stream's labels in a protobuf push request. */
export const MAX_STREAM_LABELS_LENGTH = 256 * 1024;
/** Key-value pairs of structured metadata of an entry. */
export const MAX_STRUCTURED_METADATA = 128;

// record-faults.ts
/** @internal Invalid records of a body that are left out one by one; with more, the body is rejected. */
export const MAX_FAULTS = 100_000;

// otlp/batch.ts
/** @internal JSON tokens of one record, resource or scope. */
export const MAX_TOKENS_AT_ONCE = 256 * 1024;
/** @internal Resources and scopes of a body of logs or spans. */
export const MAX_RESOURCES_AND_SCOPES = 100_000;

// otlp/otlp-decoder.ts
/** @internal Worker threads that decode large bodies. */
export const MAX_DECODER_THREADS = 2;
/** @internal Bodies of logs and spans of one organisation that wait in one queue for decoding; further ones are refused. */
export const MAX_WAITING_BODIES_PER_ORG = 256;

// otlp/decoded-rows.ts
/** @internal Size of the rows that one body becomes. */
export const MAX_ROWS_BYTES = 128 * 1024 * 1024;

// otlp/value.ts
/** Nesting of the lists and maps of an attribute, or of the body of a log record. */
export const MAX_VALUE_DEPTH = 64;

// remote-write/exemplar-list.ts
/** Exemplars of one request. */
export const MAX_EXEMPLARS_OF_REQUEST = 1000;
/** @internal Size of the labels of all exemplars in one request; each exemplar counts with the labels of its series. */
export const MAX_EXEMPLAR_BYTES = 1024 * 1024;
/** @internal Size of the labels of one exemplar. */
export const MAX_EXEMPLAR_LABEL_BYTES = 1024;

// remote-write/exemplar-ingest.ts
/** Exemplars that an organisation stores in a minute, on each replica. */
export const MAX_EXEMPLARS_PER_MINUTE = 3000;

// remote-write/write-request.ts
/** @internal Names and values that a remote write 2.0 request has in its table. */
export const MAX_SYMBOLS = 1024 * 1024;
/** @internal Samples of one series in a request. */
export const MAX_SAMPLES_OF_SERIES = 1024 * 1024;

// remote-write/native-histograms.ts
/** @internal Buckets of all native histograms of one request. */
export const MAX_HISTOGRAM_BUCKETS = 1_000_000;

// remote-write/series-output.ts
/** @internal Size of a request that has to be rewritten: symbols of 2.0 are repeated for each series. */
export const MAX_REWRITTEN_BYTES = MAX_BODY_BYTES;

// quota.ts
/** @internal Organisations whose token buckets are remembered although they are full. */
export const MAX_REMEMBERED_QUOTAS = 10_000;
