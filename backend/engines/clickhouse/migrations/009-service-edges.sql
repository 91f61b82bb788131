-- Who calls whom, by minute: written by backend/storage/traces/edges.ts, which computes a minute again when spans of it arrive. Rows of the
-- highest version of a minute are valid; a row with an empty client is written after the others of its minute and version, and marks it.
CREATE TABLE IF NOT EXISTS service_edges {{on_cluster}}
(
    org_id LowCardinality(String),
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    client LowCardinality(String),
    server LowCardinality(String),
    connection LowCardinality(String),
    calls UInt64 CODEC(ZSTD(1)),
    failed UInt64 CODEC(ZSTD(1)),
    duration_ns Float64 CODEC(ZSTD(1)),
    buckets Map(Int16, UInt64) CODEC(ZSTD(1)),
    version UInt64 CODEC(ZSTD(1))
)
ENGINE = {{replacing_engine}}(version)
PARTITION BY toYYYYMM(time)
ORDER BY (org_id, time, client, server, connection)
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, {{statistics}}{{deduplication_window}};
