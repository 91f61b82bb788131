-- Service level objectives. `body`: the objective as the API has it, without its name, as JSON. `definition`: a hash of what is counted, set
-- at `defined_at`; events that were counted for another definition are not used. `due_at`: when its events are counted next; `counted_until`:
-- the minute up to which they are counted; `received_until`: records that arrived later are counted again; `error`: why they could not be.
CREATE TABLE slos (
  id uuid NOT NULL PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  body text NOT NULL,
  definition text NOT NULL,
  defined_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  due_at timestamptz NOT NULL,
  locked_until timestamptz,
  counted_until timestamptz,
  received_until timestamptz,
  error text,
  UNIQUE (org_id, name)
);

CREATE INDEX slos_due ON slos (due_at);

-- Rules that are generated for an objective. They cannot be changed on their own.
ALTER TABLE rules ADD COLUMN slo_id uuid REFERENCES slos (id) ON DELETE CASCADE;

CREATE INDEX rules_by_slo ON rules (slo_id);
