-- Dashboards and saved views of an organisation. `body`: what is saved, as JSON. A name is unique among the items of its kind.
CREATE TABLE saved_items (
  id uuid NOT NULL PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  kind text NOT NULL CHECK (kind IN ('dashboard', 'view')),
  name text NOT NULL,
  body text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_by text NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (org_id, kind, name)
);
