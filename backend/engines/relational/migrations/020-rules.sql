-- Alert rules. Every change of an organisation's rules raises `rule_sets.revision` in the same transaction; the row is also what
-- such changes wait for. `rules.revision` is the revision of the rule's own last change: the evaluator shows it, so that a status is
-- never that of an older version. `refused` is why the evaluator refused this revision; such a rule is withheld from it.
CREATE TABLE rule_sets (
  org_id uuid PRIMARY KEY REFERENCES orgs (id),
  revision integer NOT NULL
);

CREATE TABLE rules (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
  expr text NOT NULL,
  for_duration text NOT NULL,
  enabled boolean NOT NULL,
  labels jsonb NOT NULL,
  annotations jsonb NOT NULL,
  revision integer NOT NULL,
  refused text,
  created_at timestamptz NOT NULL,
  UNIQUE (org_id, name)
);

CREATE INDEX rules_by_org ON rules (org_id, created_at, id);
