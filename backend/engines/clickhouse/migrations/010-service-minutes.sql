-- Calls, errors and durations by minute and service, without operations: a day of 100 services by minute reads a tenth of the groups of
-- `minutes`. The histogram is an array: element n counts the spans of bucket n - 41 (008-span-summaries.sql), and it ends with the last
-- bucket that has any. Arrays are summed five times faster than maps.
-- Measured at 1 million spans of 100 services within an hour (2026-11-26): 1.3 bytes and 0.5 to 1 µs of CPU a span.
ALTER TABLE spans {{on_cluster}}
    ADD PROJECTION IF NOT EXISTS service_minutes
    (
        SELECT
            org_id,
            toStartOfInterval(time, toIntervalMillisecond(60000)),
            service,
            (kind IN ('SERVER', 'CONSUMER')) OR (parent_span_id IN ('')),
            count(),
            sum(status_code IN ('ERROR')),
            sumForEach(arrayPushBack(arrayWithConstant(toUInt32(toInt16(ceil(log2(greatest(duration_ns, 1000) / 1000000) * 4)) + 40), toUInt8(0)), toUInt8(1)))
        GROUP BY
            org_id,
            toStartOfInterval(time, toIntervalMillisecond(60000)),
            service,
            (kind IN ('SERVER', 'CONSUMER')) OR (parent_span_id IN (''))
    );
-- Parts that are there already: in the background, as merges; until then their spans are read, as before.
ALTER TABLE spans {{on_cluster}}
    MATERIALIZE PROJECTION service_minutes SETTINGS mutations_sync = 0, alter_sync = 0;
