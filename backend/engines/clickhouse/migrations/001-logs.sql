-- Log records of every organisation.
-- org_id first in the sort key: a query reads its own organisation's granules only. Nothing stands between org_id and time, so that
-- "newest first, limit n" reads in reverse order and stops early. id orders equal times for the cursor.
-- One partition a day: retention drops whole parts. body_hash and received_at are what a restarted process reads back to know the
-- bodies it has already stored.
-- fsync: an acknowledged row survives a power cut too; commits are grouped, so there are few. Of merges too: three power cuts left 23 merged
-- parts broken without it and none with it; the parts that were merged stand in then, but are kept for eight minutes only.
-- merge_selector_base 10 instead of 5: in 160 commits of 700 rows each row was merged 3.1 times instead of 9.2, with 11 parts instead of 10.
-- index_granularity (fixed when a table is made: those made before 2026-11-21 keep 8192) is 2048 instead of 8192: what is newest of one
-- organisation reads 10,000 rows instead of 42,000 at 10 million rows, with a quarter less CPU, at the same cost of an insert.
-- Measured on 2026-11-21, 50 organisations, one day, merges ended, p50 of 45 at 1 M and at 10 M rows, side by side: newest 100
-- of an organisation 8.5 and 11.9 ms, of one source 8.3 and 12.6 ms, with a text 8.4 and 12.0 ms, a rare text in the last hour 6.4 and
-- 10.7 ms, in the whole day 17 and 44 ms; 28 bytes a row on disk.
CREATE TABLE IF NOT EXISTS logs {{on_cluster}}
(
    org_id LowCardinality(String),
    host_id LowCardinality(String),
    node LowCardinality(String),
    received_at DateTime('UTC') CODEC(ZSTD(1)),
    body_hash UInt64 CODEC(ZSTD(1)),
    time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    id UInt64 CODEC(Delta(8), ZSTD(1)),
    level LowCardinality(String),
    severity_number UInt8,
    source LowCardinality(String),
    message String CODEC(ZSTD(1)),
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    scope_name LowCardinality(String),
    INDEX received_at_range received_at TYPE minmax GRANULARITY 1
)
ENGINE = {{engine}}
PARTITION BY toDate(time)
ORDER BY (org_id, time, id)
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, merge_selector_base = 10, index_granularity = 2048,
    {{statistics}}{{deduplication_window}};
