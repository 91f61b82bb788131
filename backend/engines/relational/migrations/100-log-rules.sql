-- Rules over log records. `rules.logs`: what is counted, as JSON; null: a rule over metrics, whose `expr` says all.
ALTER TABLE rules ADD COLUMN logs text;

-- When the records of such a rule are counted next (null: not while it is disabled), which replica does it until when, and what came of the
-- last time. `since_at`: when it was last written. `last_reported`: the groups reported to the evaluator, as JSON. `error`: why they could not
-- be counted.
CREATE TABLE log_counts (
  rule_id uuid NOT NULL PRIMARY KEY REFERENCES rules (id) ON DELETE CASCADE,
  org_id uuid NOT NULL REFERENCES orgs (id),
  due_at timestamptz,
  locked_until timestamptz,
  since_at timestamptz NOT NULL,
  counted_at timestamptz,
  took_ms integer,
  last_reported text NOT NULL,
  error text
);

CREATE INDEX log_counts_due ON log_counts (due_at);

CREATE INDEX log_counts_by_org ON log_counts (org_id);
