-- Spans of every organisation; sort key, partitions, received_at and body_hash as in logs.
-- trace_id has a Bloom filter: a lookup by trace reads the few granules of its own organisation that may hold it.
-- events and links are JSON arrays ('' when there are none): [{"time", "name", "attributes"}] and
-- [{"trace_id", "span_id", "trace_state", "attributes"}].
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
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, merge_selector_base = 10, {{deduplication_window}};
