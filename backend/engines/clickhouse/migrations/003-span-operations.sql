-- Which services every organisation has, with their operations and kinds: what is asked without a range, and must never read spans for it.
-- Written before the spans (span-operations.ts), so that no stored span is missing here; a row twice is the same row.
-- time is the end of the last day on which the operation was seen: its rows expire after the last of its spans.
CREATE TABLE IF NOT EXISTS span_operations {{on_cluster}}
(
    org_id LowCardinality(String),
    service LowCardinality(String),
    operation String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    time DateTime('UTC') CODEC(ZSTD(1))
)
ENGINE = {{replacing_engine}}(time)
ORDER BY (org_id, service, operation, kind)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, {{statistics}}{{deduplication_window}};
-- Those of the spans that are there already: in bounded memory and time, because the start waits for it. What is left out comes with its next spans.
INSERT INTO span_operations
SELECT org_id, service, operation, kind, toStartOfDay(max(spans.time)) + toIntervalDay(1) AS time
FROM spans
WHERE length(service) <= 512 AND length(operation) <= 512
GROUP BY org_id, service, operation, kind
ORDER BY org_id, service, time DESC
LIMIT 1000 BY org_id, service
SETTINGS max_rows_to_group_by = 1000000, group_by_overflow_mode = 'any', max_execution_time = 30, timeout_overflow_mode = 'break';
