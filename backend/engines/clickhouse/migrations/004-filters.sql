-- Bloom filters of the sources of logs, the services of spans and the traces of logs: a granule of 2,048 rows that has none is not read.
-- So a source that seldom writes, one that never did, and the logs of a trace cost what is found, not what the organisation stores.
-- What an insert and a row on the disk pay, and what did not pay, is in test/bench/README.md, "Where the time goes".
ALTER TABLE logs {{on_cluster}}
    ADD INDEX IF NOT EXISTS source_filter source TYPE bloom_filter(0.01) GRANULARITY 1,
    ADD INDEX IF NOT EXISTS trace_id_filter trace_id TYPE bloom_filter(0.001) GRANULARITY 1;
ALTER TABLE spans {{on_cluster}}
    ADD INDEX IF NOT EXISTS service_filter service TYPE bloom_filter(0.01) GRANULARITY 1;
-- Parts that are there already: in the background, as merges; until then they are read whole, as before. A restart goes on with it.
ALTER TABLE logs {{on_cluster}}
    MATERIALIZE INDEX source_filter, MATERIALIZE INDEX trace_id_filter SETTINGS mutations_sync = 0, alter_sync = 0;
ALTER TABLE spans {{on_cluster}}
    MATERIALIZE INDEX service_filter SETTINGS mutations_sync = 0, alter_sync = 0;
