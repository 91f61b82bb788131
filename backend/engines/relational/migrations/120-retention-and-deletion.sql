-- How long each organisation's telemetry is kept (null: the settings), and which organisations are being deleted.
-- log_rules: JSON, [{"source"?, "level"?, "days"}], shorter times for some log records.
CREATE TABLE org_retention (
  org_id uuid NOT NULL PRIMARY KEY REFERENCES orgs (id),
  logs_days integer,
  traces_days integer,
  metrics_days integer,
  log_rules jsonb NOT NULL
);

-- A row outlives its organisation: it is the proof of the erasure. found: JSON, rows that the last passes found, by store.
CREATE TABLE org_deletions (
  org_id uuid NOT NULL PRIMARY KEY,
  name text NOT NULL,
  requested_by text NOT NULL,
  requested_at timestamptz NOT NULL,
  last_found_at timestamptz NOT NULL,
  found jsonb NOT NULL,
  erased_at timestamptz
);

-- Which replica runs a background job of the whole installation.
CREATE TABLE job_claims (
  name text NOT NULL PRIMARY KEY,
  claimed_until timestamptz NOT NULL
);
