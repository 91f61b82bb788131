-- Who did what. `org_id` is the organisation that it was done to, null where nobody knows; `actor_org_id` that of who did it. Who acted and
-- what it was done to are kept as they were then, so that entries outlive both. Rows are added and forgotten by age, never changed.
CREATE TABLE audit_log (
  id uuid PRIMARY KEY,
  org_id uuid REFERENCES orgs (id),
  at timestamptz NOT NULL,
  action text NOT NULL,
  actor text,
  actor_id uuid,
  actor_org_id uuid,
  address text NOT NULL,
  request_id text NOT NULL,
  subject jsonb NOT NULL
);

CREATE INDEX audit_log_by_org ON audit_log (org_id, at, id);

CREATE INDEX audit_log_by_time ON audit_log (at, id);
