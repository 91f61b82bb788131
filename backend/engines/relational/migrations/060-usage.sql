-- What an operator sets for an organisation over the defaults of the settings; null: the default, 0: unlimited.
CREATE TABLE org_limits (
  org_id uuid NOT NULL PRIMARY KEY REFERENCES orgs (id),
  bytes_per_second float8,
  records_per_second float8
);

-- What an organisation sent and we stored, by day (UTC, `2026-11-22`) and signal. Replicas add to the same rows. Whole numbers, exact as far
-- as both stores count them alike.
CREATE TABLE usage_days (
  org_id uuid NOT NULL REFERENCES orgs (id),
  day text NOT NULL,
  signal text NOT NULL CHECK (signal IN ('metrics', 'logs', 'traces')),
  bytes float8 NOT NULL,
  records float8 NOT NULL,
  PRIMARY KEY (org_id, day, signal)
);

CREATE INDEX usage_days_by_day ON usage_days (day);
