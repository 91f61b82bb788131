-- Exemplars of remote write: of a series, a value with the ids of its trace. Common columns, partitions and merges as in spans, which they link
-- to. Written by backend/ingest/remote-write/exemplar-ingest.ts, which limits how many an organisation stores in a minute; value is text, as
-- Prometheus' API answers it, because a value may be NaN or infinite and is never calculated with.
CREATE TABLE IF NOT EXISTS exemplars {{on_cluster}}
(
    org_id LowCardinality(String),
    host_id LowCardinality(String),
    node LowCardinality(String),
    received_at DateTime('UTC') CODEC(ZSTD(1)),
    body_hash UInt64 CODEC(ZSTD(1)),
    time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    id UInt64 CODEC(Delta(8), ZSTD(1)),
    name LowCardinality(String),
    series Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    value String CODEC(ZSTD(1)),
    INDEX received_at_range received_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine}}
PARTITION BY toDate(time)
ORDER BY (org_id, name, time, id)
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, {{statistics}}{{deduplication_window}};
