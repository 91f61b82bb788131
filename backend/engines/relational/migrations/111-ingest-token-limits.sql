-- Limits of an ingest token of its own, for each signal separately and in addition to those of its organisation; 0: none.
ALTER TABLE ingest_tokens ADD COLUMN bytes_per_second float8 NOT NULL DEFAULT 0;

ALTER TABLE ingest_tokens ADD COLUMN records_per_second float8 NOT NULL DEFAULT 0;
