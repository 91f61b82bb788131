-- Spans of every organisation; sort key, partitions, received_at and body_hash as in logs.
-- trace_id has a Bloom filter: a lookup by trace reads the few granules of its own organisation that may hold it.
-- events and links are JSON arrays ('' when there are none): [{"time", "name", "attributes"}] and
-- [{"trace_id", "span_id", "trace_state", "attributes"}].
-- Measured as in 001-logs.sql, p50 at 1 M and at 10 M rows: newest 100 of an organisation 8.5 and 9.5 ms, of one service 9.3 and 15.0 ms,
-- a trace in the whole retention 11.5 and 11.4 ms, another organisation's trace 8.6 and 8.2 ms; 26 bytes a row on disk.
-- Weighed at 2 M rows, in one run, with granules of 8,192 rows on a busy machine: ORDER BY (org_id, five minutes, service, time) answers
-- the newest 100 in 97 ms and those of a service in 135 ms, against 22 and 24 ms; a trace takes 19 ms with the Bloom filter, 72 ms without,
-- 40 ms (and 9 bytes a row more) with a projection (org_id, trace_id, _part_offset).
CREATE TABLE IF NOT EXISTS spans {{on_cluster}}
(
    org_id LowCardinality(String),
    host_id LowCardinality(String),
    node LowCardinality(String),
    received_at DateTime('UTC') CODEC(ZSTD(1)),
    body_hash UInt64 CODEC(ZSTD(1)),
    time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    id UInt64 CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)),
    service LowCardinality(String),
    operation String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    duration_ns UInt64 CODEC(ZSTD(1)),
    status_code LowCardinality(String),
    status_message String CODEC(ZSTD(1)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    scope_name LowCardinality(String),
    scope_version LowCardinality(String),
    trace_state String CODEC(ZSTD(1)),
    events String CODEC(ZSTD(1)),
    links String CODEC(ZSTD(1)),
    INDEX received_at_range received_at TYPE minmax GRANULARITY 1,
    INDEX trace_id_filter trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = {{engine}}
PARTITION BY toDate(time)
ORDER BY (org_id, time, id)
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, merge_selector_base = 10, index_granularity = 2048,
    {{statistics}}{{deduplication_window}};
